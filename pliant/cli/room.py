"""Tells a member that has to wait for room from one that no node could ever hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pliant.embedded.views import PodView
from pliant.kube.amounts import amount
from pliant.kube.objects import Node
from pliant.kube.placing import FINISHED, needs_of, spec_in
from pliant.model.job import Group

BYTES = ("memory", "ephemeral-storage")
OPTIONS = {"cpu": "--node-cpu", "memory": "--node-memory", "nvidia.com/gpu": "--node-gpu"}


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which a member wants more than any node has, or has free."""

    resource: str
    wanted: str
    offered: str
    is_taken: bool = False
    """Whether others have what is missing: it may be free one day."""

    def __str__(self) -> str:
        offer = f"{self.offered} free" if self.is_taken else self.offered
        return f"{self.wanted} {self.resource}, and no node has more than {offer}"

    @property
    def option(self) -> str:
        """What gives nodes more of it; empty if nothing does."""
        return OPTIONS.get(self.resource, "")


def lack_text(lacks: Sequence[Lack]) -> str:
    """What a member wants in vain, and how to help it: a sentence without its end."""
    options = ", ".join(lack.option for lack in lacks if lack.option)
    fix = f"; ask for less, or give nodes more with {options}" if options else "; ask for less"
    return f"it wants {'; and '.join(map(str, lacks))}{fix}"


def lacks_of(template: Mapping[str, Any], nodes: Iterable[Node]) -> tuple[Lack, ...]:
    """What keeps a pod off every node, even an empty one; nothing if it fits somewhere, or no node is known."""
    return _lacks(_needs(template), [_offer(node) for node in nodes], is_taken=False)


def lacks_for_now(
    template: Mapping[str, Any], nodes: Iterable[Node], tenants: Iterable[PodView]
) -> tuple[Lack, ...]:
    """What no node has enough of as long as these pods are there."""
    free = {node.metadata.name: _offer(node) for node in nodes}
    for pod in tenants:
        left = free.get(pod.spec.node_name)
        if left is not None and pod.status.phase not in FINISHED:
            for resource, taken in needs_of(pod.spec).items():
                left[resource] = left.get(resource, Fraction(0)) - taken
    return _lacks(_needs(template), list(free.values()), is_taken=True)


def _lacks(
    wanted: Mapping[str, Fraction], offers: Sequence[Mapping[str, Fraction]], *, is_taken: bool
) -> tuple[Lack, ...]:
    if not offers:
        return ()
    most = {resource: max(offer.get(resource, Fraction(0)) for offer in offers) for resource in wanted}
    return tuple(
        Lack(
            resource,
            amount_text(resource, each),
            amount_text(resource, max(most[resource], Fraction(0))),
            is_taken,
        )
        for resource, each in wanted.items()
        if each > most[resource]
    )


def _offer(node: Node) -> dict[str, Fraction]:
    return {resource: amount(value) for resource, value in node.status.allocatable.items()}


def amount_text(resource: str, value: Fraction) -> str:
    """An amount as people write it: `64.5`, and bytes as `23.5Gi`."""
    if resource not in BYTES:
        return f"{float(value):g}"
    unit = next((unit for unit in ("Ti", "Gi", "Mi", "Ki") if value >= amount(f"1{unit}")), "")
    return f"{round(float(value / amount(f'1{unit}')), 1):g}{unit}"


def shortage(groups: Iterable[Group], nodes: Iterable[Node]) -> str:
    """What all members together want more of than all nodes have, as a sentence; empty if there is enough."""
    offers = [node.status.allocatable for node in nodes]
    wanted: dict[str, Fraction] = {}
    for group in groups:
        for resource, each in _needs(group.template).items():
            wanted[resource] = wanted.get(resource, Fraction(0)) + each * group.size
    for resource, sum_wanted in wanted.items():
        offered = sum((amount(offer.get(resource, "0")) for offer in offers), Fraction(0))
        if offers and sum_wanted > offered:
            option = f"; make room with --nodes or {OPTIONS[resource]}" if resource in OPTIONS else ""
            return (
                f"its members want {amount_text(resource, sum_wanted)} {resource} together, and the nodes have "
                f"{amount_text(resource, offered)}: some have to wait until others are done{option}"
            )
    return ""


def _needs(template: Mapping[str, Any]) -> dict[str, Fraction]:
    return needs_of(spec_in(template))
