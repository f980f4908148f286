"""Admits pending pods and replicas below the minimum size of their group.

Higher priorities come first, then longer waits. If no capacity is free, replicas above the minimum size of groups
with the same or a lower priority are preempted: the lowest priority first, then the largest share. Nothing is
preempted for pods that would not fit even then, or for a group that would stay below its minimum.
"""

from __future__ import annotations

from collections.abc import Callable

from pliant.autoscale.model import PendingPods, PodShape, SizeReason
from pliant.autoscale.planning.capacity import PodFootprint
from pliant.autoscale.planning.draft import PlanDraft, format_count, format_requests
from pliant.autoscale.planning.planned_group import PlannedGroup
from pliant.autoscale.planning.preemption import CapacityAfterPreemption, PreemptionCandidates, PreemptionRequest

PlacementStep = tuple[PlannedGroup, int, bool]  # a group, a node, and whether a replica was added there or removed


class PendingAdmission:
    def __init__(self, draft: PlanDraft) -> None:
        self._draft = draft
        self._preemptible_by_priority: dict[int, CapacityAfterPreemption] = {}
        self._candidates: PreemptionCandidates | None = None
        self._steps: list[PlacementStep] = []

    def admit_pending(self) -> None:
        below = [donor for donor in self._draft.groups if len(donor.replica_nodes) < donor.min_size]
        waiting: list[PendingPods | PlannedGroup] = [*self._draft.cluster.pending_pods, *below]
        for each in sorted(waiting, key=_admission_order):
            if isinstance(each, PendingPods):
                self._admit_pods(each)
            else:
                self._admit_group(each)

    def _admit_pods(self, pending: PendingPods) -> None:
        capacity = self._draft.capacity
        footprint, remaining = capacity.footprint_of(pending.shape), pending.count
        while remaining:
            node = capacity.find_node(footprint)
            if node is None:
                node = self._make_room(footprint, pending.priority)
            if node is None:
                return
            self._allocate(footprint, node)
            self._draft.placed_pods.append((pending, node))
            self._commit(pending.key, pending.count, pending.shape)
            remaining -= 1

    def _admit_group(self, group: PlannedGroup) -> None:
        draft = self._draft
        while (
            len(group.replica_nodes) < group.min_size
            and _is_within_quota(group)
            and (node := draft.find_node_for_replica(group)) is not None
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
        """Return a node for one more replica of a group below its minimum size, preempting others if necessary."""
        while not _is_within_quota(group):
            if self._preempt_replica(group.priority, lambda donor: donor.quota is group.quota) is None:
                return None
        node = self._draft.find_node_for_replica(group)
        return self._make_room(group.footprint, group.priority) if node is None else node

    def _make_room(self, footprint: PodFootprint, priority: int) -> int | None:
        """Preempt replicas so that the pod fits on a node; return the node, or None."""
        preemptible = self._preemptible_capacity(priority)
        if not preemptible.has_room(footprint.shape):
            return None
        free = self._draft.capacity.free_vectors
        request, sign_bits, allowed = footprint.request_vector, footprint.sign_bits, footprint.allowed_nodes

        def can_free_node(donor: PlannedGroup) -> bool:
            node = donor.replica_nodes[-1]
            return (
                bool(allowed[node]) and free[node] + donor.footprint.request_vector - request & sign_bits == sign_bits
            )

        node = self._preempt_replica(priority, can_free_node)
        if node is not None:
            return node
        eviction = preemptible.cheapest_eviction(footprint.shape)
        if eviction is None:
            return None
        for donor, size in eviction.remaining_sizes:
            while len(donor.replica_nodes) > size:
                self._remove_last_replica(donor)
        return eviction.node

    def _preempt_replica(self, priority: int, accept: Callable[[PlannedGroup], bool]) -> int | None:
        """Remove the last replica of the first acceptable group; return its node, or None."""
        if self._candidates is None:
            self._candidates = PreemptionCandidates(self._draft.groups)
        return self._candidates.try_in_order(
            PreemptionRequest(priority), lambda donor: self._remove_last_replica(donor) if accept(donor) else None
        )

    def _preemptible_capacity(self, priority: int) -> CapacityAfterPreemption:
        if priority not in self._preemptible_by_priority:
            self._preemptible_by_priority[priority] = CapacityAfterPreemption(
                self._draft.capacity, self._draft.groups, priority
            )
        return self._preemptible_by_priority[priority]

    def _allocate(self, footprint: PodFootprint, node: int) -> None:
        self._draft.capacity.allocate(footprint, node)
        for preemptible in self._preemptible_by_priority.values():
            preemptible.allocate(footprint.shape, node)

    def _add_replica(self, group: PlannedGroup, node: int) -> None:
        self._draft.add_replica(group, node)
        for preemptible in self._preemptible_by_priority.values():
            preemptible.allocate(group.footprint.shape, node)
        self._steps.append((group, node, True))

    def _remove_last_replica(self, group: PlannedGroup) -> int:
        node = self._draft.remove_last_replica(group)
        self._steps.append((group, node, False))
        return node

    def _roll_back(self) -> None:
        for donor, node, was_added in reversed(self._steps):
            if was_added:
                self._draft.remove_last_replica(donor)
                for preemptible in self._preemptible_by_priority.values():
                    preemptible.undo_allocate(donor.footprint.shape, node)
            else:
                self._draft.add_replica(donor, node)
                if self._candidates:
                    self._candidates.add(donor)
        self._steps.clear()

    def _commit(self, beneficiary: str, count: int, shape: PodShape) -> None:
        """Record for whom replicas were preempted, and clear the steps."""
        for donor, _, was_added in self._steps:
            if not was_added and donor.shrink_reason is None:
                are = "is" if count == 1 else "are"
                demand = f"{format_count(count, 'pod')} of {format_requests(shape)} {are} pending"
                donor.shrink_reason = SizeReason.PREEMPTED, f"makes room for {beneficiary}: {demand}"
        self._steps.clear()


def _admission_order(pending: PendingPods | PlannedGroup) -> tuple[float, float, str, tuple[tuple[str, int], ...]]:
    if isinstance(pending, PendingPods):
        return -pending.priority, pending.created_at, pending.key, pending.shape.requests
    return -pending.priority, pending.elastic.created_at, str(pending.elastic.key), ()


def _is_within_quota(group: PlannedGroup) -> bool:
    return group.quota is None or group.quota.may_allocate(group.footprint)
