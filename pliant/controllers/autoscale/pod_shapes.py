"""Resource requests of pods in integers, and the nodes that accept them; both are cached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

import msgspec

from pliant.autoscale.model import PodShape
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Node
from pliant.kube.scheduling.fit import effective_pod_requests, is_node_ready, matches_selector_and_affinity
from pliant.kube.scheduling.taints import BLOCKING_EFFECTS, is_condition_taint, untolerated_taints
from pliant.kube.scheduling.types import SchedulingPodSpec
from pliant.schemas.quantity import Quantity, parse_quantity

MAX_CACHE_ENTRIES = 8192  # entries after which a cache is cleared

PodRequests = tuple[tuple[str, int], ...]

_encode = msgspec.json.Encoder().encode


class PodShapeCache:
    def __init__(self, nodes: ObjectStore[Node]) -> None:
        self._nodes = nodes
        self._requests: dict[bytes, PodRequests] = {}
        self._allowed_nodes: dict[bytes, frozenset[str] | None] = {}

    def shape_of(self, spec: SchedulingPodSpec) -> PodShape:
        return PodShape(self.requests_of(spec), self._allowed_nodes_of(spec))

    def requests_of(self, spec: SchedulingPodSpec) -> PodRequests:
        key = _encode((spec.containers, spec.init_containers, spec.overhead))
        requests = self._requests.get(key)
        if requests is None:
            requests = self._requests[key] = round_up_requests(effective_pod_requests(spec))
            _limit_cache(self._requests)
        return requests

    def clear_allowed_nodes(self) -> None:
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
    """Return requests in the integer units of policies, rounded up."""
    return tuple(sorted((name, amount) for name, value in amounts.items() if (amount := ceil(_to_units(name, value)))))


def round_down_allocatable(allocatable: Mapping[str, Quantity]) -> dict[str, int]:
    """Return allocatable resources in the integer units of policies, rounded down."""
    return {name: floor(_to_units(name, parse_quantity(value))) for name, value in allocatable.items()}


def is_schedulable(node: Node) -> bool:
    has_condition_taint = any(
        is_condition_taint(taint.key) and taint.effect in BLOCKING_EFFECTS for taint in node.spec.taints
    )
    return is_node_ready(node) and not node.spec.unschedulable and not has_condition_taint


def scheduling_properties(node: Node) -> tuple[Any, ...]:
    """Return the properties of a node that decide which pods fit on it."""
    return is_schedulable(node), node.spec.taints, node.metadata.labels, node.status.allocatable


def _accepts_pod(node: Node, spec: SchedulingPodSpec) -> bool:
    # Condition taints come and go with the state of the node; `is_schedulable` covers them.
    permanent_taints: Iterable[Any] = [taint for taint in node.spec.taints if not is_condition_taint(taint.key)]
    return not untolerated_taints(
        permanent_taints, spec.tolerations, BLOCKING_EFFECTS
    ) and matches_selector_and_affinity(spec, node.metadata)


def _to_units(resource: str, value: Fraction) -> Fraction:
    return value * 1000 if resource == "cpu" else value


def _limit_cache(cache: dict[bytes, Any]) -> None:
    if len(cache) > MAX_CACHE_ENTRIES:
        cache.clear()
