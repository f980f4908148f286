"""Tells a member that has to wait for room from one that no node could ever hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.embedded.amounts import amount
from pliant.embedded.room import needs
from pliant.embedded.views import PodView
from pliant.kube.objects import Node

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
    pod = msgspec.convert({"metadata": {}, "spec": template.get("spec") or {}}, PodView)
    for resource, wanted in needs(pod).items():
        most = max((offer.get(resource, "0") for offer in offers), key=amount)
        if wanted > amount(most):
            return Lack(resource, f"{float(wanted):g}", most)
    return None
