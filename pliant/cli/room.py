"""Tells a member that has to wait for room from one that no node could ever hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from pliant.embedded.amounts import amount
from pliant.embedded.room import needs
from pliant.embedded.views import PodView
from pliant.kube.objects import Node
from pliant.model.job import Group

OPTIONS = {"cpu": "--node-cpu", "memory": "--node-memory", "nvidia.com/gpu": "--node-gpu"}


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which a member wants more than any node has."""

    resource: str
    wanted: str
    offered: str

    def __str__(self) -> str:
        option = OPTIONS.get(self.resource)
        fix = f"; ask for less, or give nodes more with {option}" if option else "; ask for less"
        return f"it wants {self.wanted} {self.resource}, and no node has more than {self.offered}{fix}"


def lack_of(template: Mapping[str, Any], nodes: Iterable[Node]) -> Lack | None:
    """What keeps a pod off every node, even an empty one; None if it fits somewhere, or no node is known."""
    offers = [node.status.allocatable for node in nodes]
    if not offers:
        return None
    for resource, wanted in _needs(template).items():
        most = max((offer.get(resource, "0") for offer in offers), key=amount)
        if wanted > amount(most):
            return Lack(resource, f"{float(wanted):g}", most)
    return None


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
                f"its members want {float(sum_wanted):g} {resource} together, and the nodes have "
                f"{float(offered):g}: some have to wait until others are done{option}"
            )
    return ""


def _needs(template: Mapping[str, Any]) -> dict[str, Fraction]:
    pod = msgspec.convert({"metadata": {}, "spec": template.get("spec") or {}}, PodView)
    return dict(needs(pod))
