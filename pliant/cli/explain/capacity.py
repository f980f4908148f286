"""Tells a member that has to wait for room from one that no node could ever hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pliant.embedded.object_views import PodView
from pliant.kube.objects import Node
from pliant.kube.quantity import parse_quantity
from pliant.kube.scheduling.fit import TERMINAL_PHASES, effective_pod_requests, scheduling_spec
from pliant.model.job import ReplicaGroup

BYTE_RESOURCES = ("memory", "ephemeral-storage")
NODE_SIZE_OPTIONS = {"cpu": "--node-cpu", "memory": "--node-memory", "nvidia.com/gpu": "--node-gpu"}


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """A resource of which a member wants more than any node has, or has free."""

    resource: str
    requested: str
    available: str
    is_in_use: bool = False
    """Whether others have what is missing: it may be free one day."""

    def __str__(self) -> str:
        offer = f"{self.available} free" if self.is_in_use else self.available
        return f"{self.requested} {self.resource}, and no node has more than {offer}"

    @property
    def node_size_option(self) -> str:
        """What gives nodes more of it; empty if nothing does."""
        return NODE_SIZE_OPTIONS.get(self.resource, "")


def shortage_text(shortages: Sequence[ResourceShortage]) -> str:
    """What a member wants in vain, and how to help it: a sentence without its end."""
    options = ", ".join(lack.node_size_option for lack in shortages if lack.node_size_option)
    fix = f"; ask for less, or give nodes more with {options}" if options else "; ask for less"
    return f"it wants {'; and '.join(map(str, shortages))}{fix}"


def find_shortages(template: Mapping[str, Any], nodes: Iterable[Node]) -> tuple[ResourceShortage, ...]:
    """What keeps a pod off every node, even an empty one; nothing if it fits somewhere, or no node is known."""
    return _compare_resources(_template_requests(template), [_allocatable(node) for node in nodes], is_in_use=False)


def find_current_shortages(
    template: Mapping[str, Any], nodes: Iterable[Node], existing_pods: Iterable[PodView]
) -> tuple[ResourceShortage, ...]:
    """What no node has enough of as long as these pods are there."""
    free = {node.metadata.name: _allocatable(node) for node in nodes}
    for pod in existing_pods:
        left = free.get(pod.spec.node_name)
        if left is not None and pod.status.phase not in TERMINAL_PHASES:
            for resource, taken in effective_pod_requests(pod.spec).items():
                left[resource] = left.get(resource, Fraction(0)) - taken
    return _compare_resources(_template_requests(template), list(free.values()), is_in_use=True)


def _compare_resources(
    requested: Mapping[str, Fraction], node_offers: Sequence[Mapping[str, Fraction]], *, is_in_use: bool
) -> tuple[ResourceShortage, ...]:
    if not node_offers:
        return ()
    most = {resource: max(offer.get(resource, Fraction(0)) for offer in node_offers) for resource in requested}
    return tuple(
        ResourceShortage(
            resource,
            format_quantity(resource, each),
            format_quantity(resource, max(most[resource], Fraction(0))),
            is_in_use,
        )
        for resource, each in requested.items()
        if each > most[resource]
    )


def _allocatable(node: Node) -> dict[str, Fraction]:
    return {resource: parse_quantity(value) for resource, value in node.status.allocatable.items()}


def format_quantity(resource: str, value: Fraction) -> str:
    """An amount as people write it: `64.5`, and bytes as `23.5Gi`."""
    if resource not in BYTE_RESOURCES:
        return f"{float(value):g}"
    unit = next((unit for unit in ("Ti", "Gi", "Mi", "Ki") if value >= parse_quantity(f"1{unit}")), "")
    return f"{round(float(value / parse_quantity(f'1{unit}')), 1):g}{unit}"


def total_shortage_text(groups: Iterable[ReplicaGroup], nodes: Iterable[Node]) -> str:
    """What all members together want more of than all nodes have, as a sentence; empty if there is enough."""
    offers = [node.status.allocatable for node in nodes]
    wanted: dict[str, Fraction] = {}
    for group in groups:
        for resource, each in _template_requests(group.template).items():
            wanted[resource] = wanted.get(resource, Fraction(0)) + each * group.size
    for resource, sum_wanted in wanted.items():
        offered = sum((parse_quantity(offer.get(resource, "0")) for offer in offers), Fraction(0))
        if offers and sum_wanted > offered:
            option = (
                f"; make room with --nodes or {NODE_SIZE_OPTIONS[resource]}" if resource in NODE_SIZE_OPTIONS else ""
            )
            return (
                f"its members want {format_quantity(resource, sum_wanted)} {resource} together, and the nodes have "
                f"{format_quantity(resource, offered)}: some have to wait until others are done{option}"
            )
    return ""


def _template_requests(template: Mapping[str, Any]) -> dict[str, Fraction]:
    return effective_pod_requests(scheduling_spec(template))
