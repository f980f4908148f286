"""Who would give a place away: the least important first, then the best off, then the youngest."""

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
"""How many of a family are asked in vain. With thousands of groups the next would hardly answer otherwise."""


class PreemptionRequest(NamedTuple):
    """Who asks for a place."""

    priority: int
    share: float | None = None
    """How well off it is: those as important must be better off without what they give. None if it must be."""
    failure_cache_key: object = None
    """Those of one kind need not ask a family again that could give another of them nothing."""


class PreemptionCandidates:
    """Crews above their least size, in families that ask for the same resources on the same nodes.

    A place that one member of a family gives is mostly as good as that of another, and of no use to somebody who
    needs something else: so everybody asks a few of every family.
    """

    def __init__(self, groups: Iterable[PlannedGroup]) -> None:
        self._heaps: dict[tuple[int, int], list[CandidateEntry]] = {}
        for crew in groups:
            if len(crew.replica_nodes) > crew.min_size and not crew.is_fixed:
                self._heaps.setdefault(_resource_family(crew), []).append(_candidate_entry(crew))
        for heap in self._heaps.values():
            heapify(heap)
        self._failed_requests: set[tuple[object, tuple[int, int]]] = set()
        """Who has asked which family in vain."""

    def add(self, group: PlannedGroup) -> None:
        """Add one that has a member to give again."""
        heappush(self._heaps.setdefault(_resource_family(group), []), _candidate_entry(group))

    def refresh(self, groups: Iterable[PlannedGroup]) -> None:
        """Begin anew: these have another size than before, and everybody may ask again."""
        self._failed_requests.clear()
        for crew in sorted(groups, key=lambda each: each.order_index):
            if len(crew.replica_nodes) > crew.min_size:
                self.add(crew)

    def find_first(self, request: PreemptionRequest, accept: Callable[[PlannedGroup], Answer | None]) -> Answer | None:
        """What the first says that suits, of those that are no more important."""
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
    priority, below, _ = request
    asked: list[PlannedGroup] = []
    answer = None
    while heap and answer is None and len(asked) < _MAX_TRIES_PER_FAMILY:
        importance, level, _, size, crew = heap[0]
        if importance > priority or (below is not None and importance == priority and -level <= below):
            break
        heappop(heap)
        if size == len(crew.replica_nodes) and crew not in asked:
            asked.append(crew)
            answer = accept(crew)
        elif size != len(crew.replica_nodes) > crew.min_size:
            heappush(heap, _candidate_entry(crew))
    for crew in asked:
        if len(crew.replica_nodes) > crew.min_size:
            heappush(heap, _candidate_entry(crew))
    return answer


def _resource_family(group: PlannedGroup) -> tuple[int, int]:
    return group.footprint.sign_bits, id(group.footprint.allowed_nodes)


def _candidate_entry(group: PlannedGroup) -> CandidateEntry:
    size = len(group.replica_nodes)
    return group.priority, -group.share_at(size - 1), -group.order_index, size, group


_MAX_CANDIDATE_NODES = 16
"""How many nodes are compared."""


class EvictionOption(NamedTuple):
    """Who must leave so that there is room on a node."""

    cost: tuple[int, int, float]
    """How important the most important of them is, how many leave, and how badly off the worst off are then."""
    node: int
    group_sizes: tuple[tuple[PlannedGroup, int], ...]
    """To how many members their groups shrink."""


class PreemptibleCapacity:
    """A floor from which everybody of some priority or less is gone who is above the least size of their group."""

    def __init__(self, capacity: NodeCapacity, groups: Iterable[PlannedGroup], priority: int) -> None:
        self._capacity = capacity
        self._groups = [crew for crew in groups if crew.priority <= priority and not crew.is_fixed]
        self._groups_by_node: dict[int, list[PlannedGroup]] = {}
        free = capacity.free_vectors[:]
        for crew in self._groups:
            need = crew.footprint.request_vector
            for node in crew.replica_nodes[crew.min_size :]:
                free[node] += need
        free[capacity.unknown_node] = capacity.layout.zero
        self._capacity_after_eviction = capacity.with_free_vectors(free)

    def has_room(self, shape: PodShape) -> bool:
        """Whether some node would have room."""
        return self._capacity_after_eviction.find_node(self._capacity_after_eviction.footprint_of(shape)) is not None

    def allocate(self, shape: PodShape, node: int) -> None:
        """Somebody has come who will not leave for others."""
        self._capacity_after_eviction.allocate(self._capacity_after_eviction.footprint_of(shape), node)

    def release(self, shape: PodShape, node: int) -> None:
        """It has not come after all."""
        self._capacity_after_eviction.release(self._capacity_after_eviction.footprint_of(shape), node)

    def cheapest_eviction(self, shape: PodShape) -> EvictionOption | None:
        """The cheapest way to make room on one of the first nodes that could have it."""
        foot = self._capacity_after_eviction.footprint_of(shape)
        first = self._capacity_after_eviction.find_node(foot)
        if first is None:
            return None
        options = (
            self._eviction_from_node(foot, node)
            for node in self._capacity_after_eviction.find_nodes(foot, first, _MAX_CANDIDATE_NODES)
        )
        return min((each for each in options if each), key=lambda each: (each.cost, each.node), default=None)

    def _eviction_from_node(self, footprint: PodFootprint, node: int) -> EvictionOption | None:
        sitters = [
            (crew, index)
            for crew in self._groups_on_node(node)
            for index, seat in enumerate(crew.replica_nodes)
            if seat == node and index >= crew.min_size
        ]
        # The least important first, then those for whom the fewest others must leave as well.
        sitters.sort(key=lambda each: (each[0].priority, len(each[0].replica_nodes) - each[1], -each[0].order_index))
        room, leavers = self._capacity.free_vectors[node], []
        for crew, index in sitters:
            if room - footprint.request_vector & footprint.sign_bits == footprint.sign_bits:
                break
            room += crew.footprint.request_vector
            leavers.append((crew, index))
        if room - footprint.request_vector & footprint.sign_bits != footprint.sign_bits:
            return None
        sizes: dict[PlannedGroup, int] = {}
        for crew, index in self._minimal_evictions(footprint, room, leavers):
            sizes[crew] = min(index, sizes.get(crew, index))
        number = sum(len(crew.replica_nodes) - size for crew, size in sizes.items())
        importance = max((crew.priority for crew in sizes), default=0)
        welfare = min((crew.share_at(size) for crew, size in sizes.items()), default=0.0)
        return EvictionOption((importance, number, -welfare), node, tuple(sizes.items()))

    def _groups_on_node(self, node: int) -> list[PlannedGroup]:
        """The crews that had members there when this was first asked; nobody has come since who might leave."""
        if not self._groups_by_node:
            for crew in self._groups:
                for each in set(crew.replica_nodes[crew.min_size :]):
                    self._groups_by_node.setdefault(each, []).append(crew)
        return self._groups_by_node.get(node, [])

    def _minimal_evictions(
        self, footprint: PodFootprint, free_vector: int, evicted: list[tuple[PlannedGroup, int]]
    ) -> list[tuple[PlannedGroup, int]]:
        """Those without whom there would not be room."""
        needed = []
        for crew, index in reversed(evicted):
            if (
                free_vector - crew.footprint.request_vector - footprint.request_vector & footprint.sign_bits
                == footprint.sign_bits
            ):
                free_vector -= crew.footprint.request_vector
            else:
                needed.append((crew, index))
        return needed
