"""What pods take up, in whole numbers, and which nodes would take them; both are found once for many alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

import msgspec

from pliant.autoscale.model import Shape
from pliant.kube.affinity import is_wanted
from pliant.kube.amounts import Amount, amount
from pliant.kube.objects import Node
from pliant.kube.placing import is_ready, needs_of
from pliant.kube.store import ObjectStore
from pliant.kube.taints import KEEPS_OUT, is_derived, untolerated
from pliant.kube.wanting import AskingSpec

MOST_KEPT = 8192
"""Answers that are remembered; with more of them it is begun anew."""

Needs = tuple[tuple[str, int], ...]

_encode = msgspec.json.Encoder().encode


class Shapes:
    """The shapes of pods on these nodes."""

    def __init__(self, nodes: ObjectStore[Node]) -> None:
        self._nodes = nodes
        self._needs: dict[bytes, Needs] = {}
        self._allowed: dict[bytes, frozenset[str] | None] = {}

    def of(self, spec: AskingSpec) -> Shape:
        """What a pod takes up, and where it may go."""
        return Shape(self.needs(spec), self._allowed_for(spec))

    def needs(self, spec: AskingSpec) -> Needs:
        """What a pod takes up."""
        key = _encode((spec.containers, spec.init_containers, spec.overhead))
        found = self._needs.get(key)
        if found is None:
            found = self._needs[key] = whole(needs_of(spec))
            _bound(self._needs)
        return found

    def forget_nodes(self) -> None:
        """Begin anew, as nodes have come, gone or been marked."""
        self._allowed.clear()

    def _allowed_for(self, spec: AskingSpec) -> frozenset[str] | None:
        key = _encode((sorted(spec.node_selector.items()), spec.node_affinity.required, spec.tolerations))
        if key not in self._allowed:
            nodes = self._nodes.all()
            names = frozenset(node.metadata.name for node in nodes if _takes(node, spec))
            self._allowed[key] = None if len(names) == len(nodes) else names
            _bound(self._allowed)
        return self._allowed[key]


def whole(amounts: Mapping[str, Fraction]) -> Needs:
    """Needs in the units that policies count in, rounded up."""
    return tuple(
        sorted((name, number) for name, value in amounts.items() if (number := ceil(_units(name, value))))
    )


def room_of(allocatable: Mapping[str, Amount]) -> dict[str, int]:
    """What a node has, in the units that policies count in, rounded down."""
    return {name: floor(_units(name, amount(value))) for name, value in allocatable.items()}


def is_open(node: Node) -> bool:
    """Whether a node takes newcomers at all."""
    in_trouble = any(is_derived(taint.key) and taint.effect in KEEPS_OUT for taint in node.spec.taints)
    return is_ready(node) and not node.spec.unschedulable and not in_trouble


def marks(node: Node) -> tuple[Any, ...]:
    """What of a node decides whom it takes and how many."""
    return is_open(node), node.spec.taints, node.metadata.labels, node.status.allocatable


def _takes(node: Node, spec: AskingSpec) -> bool:
    # Taints that follow from how a node fares come and go: what they say is in `is_open`.
    lasting: Iterable[Any] = [taint for taint in node.spec.taints if not is_derived(taint.key)]
    return not untolerated(lasting, spec.tolerations, KEEPS_OUT) and is_wanted(spec, node.metadata)


def _units(name: str, value: Fraction) -> Fraction:
    return value * 1000 if name == "cpu" else value


def _bound(answers: dict[bytes, Any]) -> None:
    if len(answers) > MOST_KEPT:
        answers.clear()
