"""What pods take up, in whole numbers, and which nodes would take them; both are found once for many alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

import msgspec

from pliant.autoscale.model import PodShape
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Node
from pliant.kube.quantity import Quantity, parse_quantity
from pliant.kube.scheduling.affinity import matches_node_affinity
from pliant.kube.scheduling.fit import effective_pod_requests, is_node_ready
from pliant.kube.scheduling.taints import BLOCKING_EFFECTS, is_condition_taint, untolerated_taints
from pliant.kube.scheduling.types import SchedulingPodSpec

MAX_CACHE_ENTRIES = 8192
"""Answers that are remembered; with more of them it is begun anew."""

PodRequests = tuple[tuple[str, int], ...]

_encode = msgspec.json.Encoder().encode


class PodShapeCache:
    """The shapes of pods on these nodes."""

    def __init__(self, nodes: ObjectStore[Node]) -> None:
        self._nodes = nodes
        self._requests: dict[bytes, PodRequests] = {}
        self._allowed_nodes: dict[bytes, frozenset[str] | None] = {}

    def shape_of(self, spec: SchedulingPodSpec) -> PodShape:
        """What a pod takes up, and where it may go."""
        return PodShape(self.requests_of(spec), self._allowed_nodes_of(spec))

    def requests_of(self, spec: SchedulingPodSpec) -> PodRequests:
        """What a pod takes up."""
        key = _encode((spec.containers, spec.init_containers, spec.overhead))
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = round_up_requests(effective_pod_requests(spec))
            _limit_cache(self._requests)
        return found

    def clear_allowed_nodes(self) -> None:
        """Begin anew, as nodes have come, gone or been marked."""
        self._allowed_nodes.clear()

    def _allowed_nodes_of(self, spec: SchedulingPodSpec) -> frozenset[str] | None:
        key = _encode((sorted(spec.node_selector.items()), spec.node_affinity.required, spec.tolerations))
        if key not in self._allowed_nodes:
            nodes = self._nodes.all()
            names = frozenset(node.metadata.name for node in nodes if _accepts_pod(node, spec))
            self._allowed_nodes[key] = None if len(names) == len(nodes) else names
            _limit_cache(self._allowed_nodes)
        return self._allowed_nodes[key]


def round_up_requests(amounts: Mapping[str, Fraction]) -> PodRequests:
    """Needs in the units that policies count in, rounded up."""
    return tuple(sorted((name, number) for name, value in amounts.items() if (number := ceil(_to_units(name, value)))))


def round_down_allocatable(allocatable: Mapping[str, Quantity]) -> dict[str, int]:
    """What a node has, in the units that policies count in, rounded down."""
    return {name: floor(_to_units(name, parse_quantity(value))) for name, value in allocatable.items()}


def is_schedulable(node: Node) -> bool:
    """Whether a node takes newcomers at all."""
    in_trouble = any(is_condition_taint(taint.key) and taint.effect in BLOCKING_EFFECTS for taint in node.spec.taints)
    return is_node_ready(node) and not node.spec.unschedulable and not in_trouble


def scheduling_properties(node: Node) -> tuple[Any, ...]:
    """What of a node decides whom it takes and how many."""
    return is_schedulable(node), node.spec.taints, node.metadata.labels, node.status.allocatable


def _accepts_pod(node: Node, spec: SchedulingPodSpec) -> bool:
    # Taints that follow from how a node fares come and go: what they say is in `is_open`.
    lasting: Iterable[Any] = [taint for taint in node.spec.taints if not is_condition_taint(taint.key)]
    return not untolerated_taints(lasting, spec.tolerations, BLOCKING_EFFECTS) and matches_node_affinity(
        spec, node.metadata
    )


def _to_units(resource: str, value: Fraction) -> Fraction:
    return value * 1000 if resource == "cpu" else value


def _limit_cache(cache: dict[bytes, Any]) -> None:
    if len(cache) > MAX_CACHE_ENTRIES:
        cache.clear()
