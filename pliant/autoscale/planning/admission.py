"""Those who must have room have it first: pods that wait, and members below the least size of their group.

The more important come first, then those who have waited longer. Where no room is free, others leave that are no
more important, as far as they are above the least size of their group: the least important first, then the best
off. Nobody leaves in vain, neither for a pod that would not fit even then, nor for a group that would still be
below its least size.
"""

from __future__ import annotations

from collections.abc import Callable

from pliant.autoscale.model import PendingPods, PodShape, SizeReason
from pliant.autoscale.planning.capacity import PodFootprint
from pliant.autoscale.planning.draft import PlanDraft
from pliant.autoscale.planning.messages import format_count, format_requests
from pliant.autoscale.planning.planned_group import PlannedGroup
from pliant.autoscale.planning.preemption import PreemptibleCapacity, PreemptionCandidates, PreemptionRequest

PlacementStep = tuple[PlannedGroup, int, bool]
"""A crew, a node, and whether a member came there or left."""


class PendingAdmission:
    """Lets in whoever must have room."""

    def __init__(self, draft: PlanDraft) -> None:
        self._draft = draft
        self._preemptible_by_priority: dict[int, PreemptibleCapacity] = {}
        self._candidates: PreemptionCandidates | None = None
        self._steps: list[PlacementStep] = []

    def admit_pending(self) -> None:
        """Everybody there is room for, or can be."""
        below = [crew for crew in self._draft.groups if len(crew.replica_nodes) < crew.min_size]
        everybody: list[PendingPods | PlannedGroup] = [*self._draft.cluster.pending_pods, *below]
        for each in sorted(everybody, key=_admission_order):
            if isinstance(each, PendingPods):
                self._admit_pods(each)
            else:
                self._admit_group(each)

    def _admit_pods(self, pending: PendingPods) -> None:
        floor = self._draft.capacity
        foot, left = floor.footprint_of(pending.shape), pending.count
        while left:
            node = floor.find_node(foot)
            if node is None:
                node = self._make_room(foot, pending.priority)
            if node is None:
                return
            self._allocate(foot, node)
            self._draft.placed_pods.append((pending, node))
            self._commit(pending.key, pending.count, pending.shape)
            left -= 1

    def _admit_group(self, group: PlannedGroup) -> None:
        draft = self._draft
        while (
            len(group.replica_nodes) < group.min_size
            and _is_within_quota(group)
            and (node := draft.find_node(group)) is not None
        ):
            self._add_replica(group, node)
        self._steps.clear()
        missing = group.min_size - len(group.replica_nodes)
        while len(group.replica_nodes) < group.min_size:
            node = self._find_or_free_node(group)
            if node is None:
                self._roll_back()
                return
            self._add_replica(group, node)
        self._commit(str(group.elastic.key), missing, group.elastic.shape)

    def _find_or_free_node(self, group: PlannedGroup) -> int | None:
        """A place for one more member of a group below its least size, if need be one that others leave."""
        while not _is_within_quota(group):
            if self._preempt_replica(group.priority, lambda giver: giver.quota is group.quota) is None:
                return None
        node = self._draft.find_node(group)
        return self._make_room(group.footprint, group.priority) if node is None else node

    def _make_room(self, footprint: PodFootprint, priority: int) -> int | None:
        """A node that others leave so that there is room, if there is any."""
        reach = self._preemptible_capacity(priority)
        if not reach.has_room(footprint.shape):
            return None
        free = self._draft.capacity.free_vectors
        need, signs, open_to = footprint.request_vector, footprint.sign_bits, footprint.allowed_nodes

        def gives_way(giver: PlannedGroup) -> bool:
            node = giver.replica_nodes[-1]
            return bool(open_to[node]) and free[node] + giver.footprint.request_vector - need & signs == signs

        node = self._preempt_replica(priority, gives_way)
        if node is not None:
            return node
        eviction = reach.cheapest_eviction(footprint.shape)
        if eviction is None:
            return None
        for crew, size in eviction.group_sizes:
            while len(crew.replica_nodes) > size:
                self._remove_last_replica(crew)
        return eviction.node

    def _preempt_replica(self, priority: int, accept: Callable[[PlannedGroup], bool]) -> int | None:
        """The node that somebody who suits leaves."""
        if self._candidates is None:
            self._candidates = PreemptionCandidates(self._draft.groups)
        return self._candidates.find_first(
            PreemptionRequest(priority), lambda giver: self._remove_last_replica(giver) if accept(giver) else None
        )

    def _preemptible_capacity(self, priority: int) -> PreemptibleCapacity:
        if priority not in self._preemptible_by_priority:
            self._preemptible_by_priority[priority] = PreemptibleCapacity(
                self._draft.capacity, self._draft.groups, priority
            )
        return self._preemptible_by_priority[priority]

    def _allocate(self, footprint: PodFootprint, node: int) -> None:
        self._draft.capacity.allocate(footprint, node)
        for reach in self._preemptible_by_priority.values():
            reach.allocate(footprint.shape, node)

    def _add_replica(self, group: PlannedGroup, node: int) -> None:
        self._draft.add_replica(group, node)
        for reach in self._preemptible_by_priority.values():
            reach.allocate(group.footprint.shape, node)
        self._steps.append((group, node, True))

    def _remove_last_replica(self, group: PlannedGroup) -> int:
        node = self._draft.remove_last_replica(group)
        self._steps.append((group, node, False))
        return node

    def _roll_back(self) -> None:
        """As if nobody had come or left since those who did were settled."""
        for crew, node, has_come in reversed(self._steps):
            if has_come:
                self._draft.remove_last_replica(crew)
                for reach in self._preemptible_by_priority.values():
                    reach.release(crew.footprint.shape, node)
            else:
                self._draft.add_replica(crew, node)
                if self._candidates:
                    self._candidates.add(crew)
        self._steps.clear()

    def _commit(self, beneficiary: str, count: int, shape: PodShape) -> None:
        """Whoever has left has left for this one."""
        for crew, _, has_come in self._steps:
            if not has_come and crew.shrink_reason is None:
                wait = "waits" if count == 1 else "wait"
                what = f"{format_count(count, 'pod')} of {format_requests(shape)} {wait}"
                crew.shrink_reason = SizeReason.PREEMPTED, f"gives way to {beneficiary}: {what}"
        self._steps.clear()


def _admission_order(pending: PendingPods | PlannedGroup) -> tuple[float, float, str, tuple[tuple[str, int], ...]]:
    """The more important come first, then those that have waited longer."""
    if isinstance(pending, PendingPods):
        return -pending.priority, pending.created_at, pending.key, pending.shape.requests
    return -pending.priority, pending.elastic.created_at, str(pending.elastic.key), ()


def _is_within_quota(group: PlannedGroup) -> bool:
    return group.quota is None or group.quota.may_allocate(group.footprint)
