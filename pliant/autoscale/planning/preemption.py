"""Preemption: which groups lose a replica first (lowest priority, then largest share, then youngest)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from pliant.autoscale.model import PodShape
from pliant.autoscale.planning.capacity import NodeCapacity, PodFootprint
from pliant.autoscale.planning.planned_group import PlannedGroup

CandidateEntry = tuple[int, float, int, int, PlannedGroup]
Answer = TypeVar("Answer")

_MAX_TRIES_PER_FAMILY = 16
"""Candidates tried in vain per family; with thousands of groups, further ones hardly ever succeed."""


class PreemptionRequest(NamedTuple):
    priority: int
    requester_share: float | None = None
    """Its share: groups of equal priority must keep a larger one. None if the room is mandatory."""
    failure_cache_key: object = None  # requests with equal keys do not retry a family that failed


class PreemptionCandidates:
    """Groups above their minimum size, in families that request the same resources on the same nodes.

    The replicas of a family are mostly interchangeable, so a request tries only a few groups of each family.
    """

    def __init__(self, groups: Iterable[PlannedGroup]) -> None:
        self._heaps: dict[tuple[int, int], list[CandidateEntry]] = {}
        for group in groups:
            if len(group.replica_nodes) > group.min_size and not group.is_fixed:
                self._heaps.setdefault(_resource_family(group), []).append(_candidate_entry(group))
        for heap in self._heaps.values():
            heapify(heap)
        self._failed_requests: set[tuple[object, tuple[int, int]]] = set()  # failed requests by cache key and family

    def add(self, group: PlannedGroup) -> None:
        heappush(self._heaps.setdefault(_resource_family(group), []), _candidate_entry(group))

    def refresh(self, groups: Iterable[PlannedGroup]) -> None:
        """Update groups whose size has changed, and forget failed requests."""
        self._failed_requests.clear()
        for group in sorted(groups, key=lambda each: each.order_index):
            if len(group.replica_nodes) > group.min_size:
                self.add(group)

    def try_in_order(
        self, request: PreemptionRequest, accept: Callable[[PlannedGroup], Answer | None]
    ) -> Answer | None:
        """Return the first result of `accept` that is not None, over groups whose priority is not higher."""
        families = [(heap[0][:3], family) for family, heap in self._heaps.items() if heap]
        for _, family in sorted(families):
            if (request.failure_cache_key, family) not in self._failed_requests:
                answer = _find_first_in_heap(self._heaps[family], request, accept)
                if answer is not None:
                    return answer
                if request.failure_cache_key:
                    self._failed_requests.add((request.failure_cache_key, family))
        return None


def _find_first_in_heap(
    heap: list[CandidateEntry], request: PreemptionRequest, accept: Callable[[PlannedGroup], Answer | None]
) -> Answer | None:
    priority, max_share, _ = request
    tried: list[PlannedGroup] = []
    answer = None
    while heap and answer is None and len(tried) < _MAX_TRIES_PER_FAMILY:
        group_priority, negated_share, _, size, group = heap[0]
        if group_priority > priority or (
            max_share is not None and group_priority == priority and -negated_share <= max_share
        ):
            break
        heappop(heap)
        if size == len(group.replica_nodes) and group not in tried:
            tried.append(group)
            answer = accept(group)
        elif size != len(group.replica_nodes) > group.min_size:
            heappush(heap, _candidate_entry(group))
    for group in tried:
        if len(group.replica_nodes) > group.min_size:
            heappush(heap, _candidate_entry(group))
    return answer


def _resource_family(group: PlannedGroup) -> tuple[int, int]:
    return group.footprint.sign_bits, id(group.footprint.allowed_nodes)


def _candidate_entry(group: PlannedGroup) -> CandidateEntry:
    size = len(group.replica_nodes)
    return group.priority, -group.share_at(size - 1), -group.order_index, size, group


_MAX_CANDIDATE_NODES = 16  # how many nodes are compared


class EvictionOption(NamedTuple):
    cost: tuple[int, int, float]
    """The highest priority preempted, the number of replicas, and the negated smallest share that is left."""
    node: int
    remaining_sizes: tuple[tuple[PlannedGroup, int], ...]  # the sizes to which groups shrink


class CapacityAfterPreemption:
    """The capacity if all replicas above minimum sizes were removed from groups up to a priority."""

    def __init__(self, capacity: NodeCapacity, groups: Iterable[PlannedGroup], priority: int) -> None:
        self._capacity = capacity
        self._groups = [group for group in groups if group.priority <= priority and not group.is_fixed]
        self._groups_by_node: dict[int, list[PlannedGroup]] = {}
        free = capacity.free_vectors[:]
        for group in self._groups:
            request = group.footprint.request_vector
            for node in group.replica_nodes[group.min_size :]:
                free[node] += request
        free[capacity.unknown_node] = capacity.layout.zero
        self._capacity_after_eviction = capacity.with_free_vectors(free)

    def has_room(self, shape: PodShape) -> bool:
        return self._capacity_after_eviction.find_node(self._capacity_after_eviction.footprint_of(shape)) is not None

    def allocate(self, shape: PodShape, node: int) -> None:
        """Record a pod that cannot be preempted."""
        self._capacity_after_eviction.allocate(self._capacity_after_eviction.footprint_of(shape), node)

    def undo_allocate(self, shape: PodShape, node: int) -> None:
        self._capacity_after_eviction.release(self._capacity_after_eviction.footprint_of(shape), node)

    def cheapest_eviction(self, shape: PodShape) -> EvictionOption | None:
        """Return the cheapest eviction on the first nodes that could have room."""
        footprint = self._capacity_after_eviction.footprint_of(shape)
        first = self._capacity_after_eviction.find_node(footprint)
        if first is None:
            return None
        options = (
            self._eviction_from_node(footprint, node)
            for node in self._capacity_after_eviction.find_nodes(footprint, first, _MAX_CANDIDATE_NODES)
        )
        return min((each for each in options if each), key=lambda each: (each.cost, each.node), default=None)

    def _eviction_from_node(self, footprint: PodFootprint, node: int) -> EvictionOption | None:
        candidates = [
            (group, index)
            for group in self._groups_on_node(node)
            for index, replica_node in enumerate(group.replica_nodes)
            if replica_node == node and index >= group.min_size
        ]
        # The lowest priority first, then replicas that need the fewest others of their group removed as well.
        candidates.sort(key=lambda each: (each[0].priority, len(each[0].replica_nodes) - each[1], -each[0].order_index))
        free_vector, evicted = self._capacity.free_vectors[node], []
        for group, index in candidates:
            if free_vector - footprint.request_vector & footprint.sign_bits == footprint.sign_bits:
                break
            free_vector += group.footprint.request_vector
            evicted.append((group, index))
        if free_vector - footprint.request_vector & footprint.sign_bits != footprint.sign_bits:
            return None
        sizes: dict[PlannedGroup, int] = {}
        for group, index in self._minimal_evictions(footprint, free_vector, evicted):
            sizes[group] = min(index, sizes.get(group, index))
        removed_count = sum(len(group.replica_nodes) - size for group, size in sizes.items())
        group_priority = max((group.priority for group in sizes), default=0)
        min_share = min((group.share_at(size) for group, size in sizes.items()), default=0.0)
        return EvictionOption((group_priority, removed_count, -min_share), node, tuple(sizes.items()))

    def _groups_on_node(self, node: int) -> list[PlannedGroup]:
        """Return the groups that had removable replicas on a node; none are added after the first call."""
        if not self._groups_by_node:
            for group in self._groups:
                for each in set(group.replica_nodes[group.min_size :]):
                    self._groups_by_node.setdefault(each, []).append(group)
        return self._groups_by_node.get(node, [])

    def _minimal_evictions(
        self, footprint: PodFootprint, free_vector: int, evicted: list[tuple[PlannedGroup, int]]
    ) -> list[tuple[PlannedGroup, int]]:
        required = []
        for group, index in reversed(evicted):
            without = free_vector - group.footprint.request_vector
            if without - footprint.request_vector & footprint.sign_bits == footprint.sign_bits:
                free_vector = without
            else:
                required.append((group, index))
        return required
