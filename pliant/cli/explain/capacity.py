"""Compares the resource requests of replicas with the capacity of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pliant.embedded.object_views import PodView
from pliant.kube.objects import Node
from pliant.kube.scheduling.fit import TERMINAL_POD_PHASES, effective_pod_requests, parse_scheduling_spec
from pliant.model.job import ReplicaGroup
from pliant.schemas.quantity import parse_quantity

UNSCHEDULABLE_REASON = "Unschedulable"
BYTE_RESOURCES = ("memory", "ephemeral-storage")
NODE_OPTION_BY_RESOURCE = {"cpu": "--node-cpu", "memory": "--node-memory", "nvidia.com/gpu": "--node-gpu"}


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """A resource of which a replica requests more than any node has, or has free."""

    resource: str
    requested: str
    available: str
    is_used_by_pods: bool = False  # other pods use the missing amount, so it may become free

    def __str__(self) -> str:
        available = f"{self.available} free" if self.is_used_by_pods else self.available
        return f"requests {self.requested} {self.resource}, but no node has more than {available}"


def shortage_text(shortages: Sequence[ResourceShortage]) -> str:
    """Describe what a replica requests in vain and how to fix it."""
    options = ", ".join(NODE_OPTION_BY_RESOURCE[s.resource] for s in shortages if s.resource in NODE_OPTION_BY_RESOURCE)
    fix = f"; reduce the requests, or enlarge the nodes with {options}" if options else "; reduce the requests"
    return f"it {'; and it '.join(map(str, shortages))}{fix}"


def find_permanent_shortages(template: Mapping[str, Any], nodes: Iterable[Node]) -> tuple[ResourceShortage, ...]:
    """Return why a pod fits on no node, not even an empty one; empty if it fits or no node is known."""
    return _compare_resources(
        _template_requests(template), [_allocatable(node) for node in nodes], is_used_by_pods=False
    )


def find_current_shortages(
    template: Mapping[str, Any], nodes: Iterable[Node], existing_pods: Iterable[PodView]
) -> tuple[ResourceShortage, ...]:
    """Return which resources no node has enough of while these pods exist."""
    free = {node.metadata.name: _allocatable(node) for node in nodes}
    for pod in existing_pods:
        remaining = free.get(pod.spec.node_name)
        if remaining is not None and pod.status.phase not in TERMINAL_POD_PHASES:
            for resource, amount in effective_pod_requests(pod.spec).items():
                remaining[resource] = remaining.get(resource, Fraction(0)) - amount
    return _compare_resources(_template_requests(template), list(free.values()), is_used_by_pods=True)


def _compare_resources(
    requested: Mapping[str, Fraction], node_offers: Sequence[Mapping[str, Fraction]], *, is_used_by_pods: bool
) -> tuple[ResourceShortage, ...]:
    if not node_offers:
        return ()
    zero = Fraction(0)
    most = {resource: max(offer.get(resource, zero) for offer in node_offers) for resource in requested}
    return tuple(
        ResourceShortage(
            resource,
            format_quantity(resource, amount),
            format_quantity(resource, max(most[resource], zero)),
            is_used_by_pods,
        )
        for resource, amount in requested.items()
        if amount > most[resource]
    )


def _allocatable(node: Node) -> dict[str, Fraction]:
    return {resource: parse_quantity(value) for resource, value in node.status.allocatable.items()}


def format_quantity(resource: str, value: Fraction) -> str:
    """Format an amount as in manifests: `64.5`, and bytes as `23.5Gi`."""
    if resource not in BYTE_RESOURCES:
        return f"{float(value):g}"
    unit = next((unit for unit in ("Ti", "Gi", "Mi", "Ki") if value >= parse_quantity(f"1{unit}")), "")
    return f"{round(float(value / parse_quantity(f'1{unit}')), 1):g}{unit}"


def total_shortage_text(groups: Iterable[ReplicaGroup], nodes: Iterable[Node]) -> str:
    """Describe the resource of which all replicas together request more than all nodes have; empty if none."""
    capacities = [_allocatable(node) for node in nodes]
    requested: dict[str, Fraction] = {}
    for group in groups:
        for resource, amount in _template_requests(group.template).items():
            requested[resource] = requested.get(resource, Fraction(0)) + amount * group.size
    for resource, total in requested.items():
        available = sum((capacity.get(resource, Fraction(0)) for capacity in capacities), Fraction(0))
        if capacities and total > available:
            option = NODE_OPTION_BY_RESOURCE.get(resource)
            fix = f"; add capacity with --nodes or {option}" if option else ""
            return (
                f"its replicas request {format_quantity(resource, total)} {resource} in total, but the nodes have "
                f"{format_quantity(resource, available)}: some wait until others have finished{fix}"
            )
    return ""


def _template_requests(template: Mapping[str, Any]) -> dict[str, Fraction]:
    return effective_pod_requests(parse_scheduling_spec(template))
