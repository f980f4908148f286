"""Distributes the remaining capacity: the smallest share grows first, if necessary at the cost of the largest.

Groups of higher priority get their maximum before others get more than their minimum. Among equal priorities the
group with the smallest share gets the next replica. Without free capacity, it takes one from a group of lower
priority, or of equal priority that keeps a larger share. Each exchange improves the smallest share concerned, so
none is ever reversed, and the process ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from itertools import groupby

from pliant.autoscale.model import SizeReason
from pliant.autoscale.planning.draft import PlanDraft
from pliant.autoscale.planning.planned_group import UNPINNED, PlannedGroup
from pliant.autoscale.planning.preemption import PreemptionCandidates, PreemptionRequest

ShareEntry = tuple[float, int, PlannedGroup]  # the share of a group, its order index, and the group
_MAX_PASSES = 50  # bounds the cost of one plan; three passes usually suffice, and the next plan continues
_MAX_DONATED_REPLICAS = 8  # the most replicas that a group gives up at once for one larger replica


class ShareAllocator:
    def __init__(self, draft: PlanDraft) -> None:
        self._draft = draft
        self._groups = [group for group in draft.groups if not group.is_fixed]
        self._candidates: PreemptionCandidates | None = None
        self._exchange_count = 0
        self._resized_groups: set[PlannedGroup] = set()  # groups whose entries among the candidates are outdated

    def distribute_capacity(self) -> None:
        for _ in range(_MAX_PASSES):
            before = self._exchange_count
            for _, groups in groupby(self._groups, key=lambda group: group.priority):
                self._grow_groups(groups)
            if self._exchange_count == before:
                return
            if self._candidates:
                self._candidates.refresh(group for group in self._resized_groups if group.elastic.may_shrink)
            self._resized_groups.clear()

    def _grow_groups(self, groups: Iterable[PlannedGroup]) -> None:
        """Grow groups of equal priority, the smallest share first, as long as possible."""
        entries_by_kind: dict[tuple[int, int], list[ShareEntry]] = {}
        for group in groups:
            # Groups that did not reach their minimum size get nothing: a few more replicas would not help them.
            if group.min_size <= len(group.replica_nodes) < group.max_planned_size:
                kind = (id(group.footprint), id(group.quota))
                entries_by_kind.setdefault(kind, []).append((group.share, group.order_index, group))
        for entries in entries_by_kind.values():
            heapify(entries)
        heads = [(entries[0][:2], kind) for kind, entries in entries_by_kind.items()]
        heapify(heads)
        while heads:
            _, kind = heads[0]
            entries = entries_by_kind[kind]
            group = entries[0][2]
            if self._try_grow(group) and len(group.replica_nodes) < group.max_planned_size:
                heapreplace(entries, (group.share, group.order_index, group))
            elif len(group.replica_nodes) == group.max_planned_size or group.next_pinned_node != UNPINNED:
                heappop(entries)
            else:
                entries.clear()  # no other group of this kind can grow either
            if entries:
                heapreplace(heads, (entries[0][:2], kind))
            else:
                heappop(heads)

    def _try_grow(self, group: PlannedGroup) -> bool:
        exceeded = self._draft.exceeded_limit(group)
        node = None if exceeded else self._draft.find_node_for_replica(group)
        if node is not None:
            self._draft.add_replica(group, node)
        elif group.next_pinned_node != UNPINNED or not self._try_preempt(group, exceeded):
            return False
        if self._candidates:
            self._resized_groups.add(group)
        return True

    def _try_preempt(self, group: PlannedGroup, exceeded_limit: SizeReason | None) -> bool:
        if self._candidates is None:
            self._candidates = PreemptionCandidates(each for each in self._groups if each.elastic.may_shrink)
        quota, share = group.quota if exceeded_limit is SizeReason.QUOTA_EXCEEDED else None, group.share

        def try_donor(candidate: PlannedGroup) -> bool | None:
            if quota is not None and candidate.quota is not quota:
                return None
            return self._try_exchange(candidate, group, share, exceeded_limit is not None) or None

        request = PreemptionRequest(group.priority, share, (id(group.footprint), id(group.quota), group.priority))
        was_exchanged = bool(self._candidates.try_in_order(request, try_donor))
        self._exchange_count += was_exchanged
        return was_exchanged

    def _try_exchange(self, donor: PlannedGroup, receiver: PlannedGroup, share: float, has_room: bool) -> bool:
        """Remove a few replicas of the donor if one of the receiver fits then."""
        count, node = self._find_exchange(donor, receiver, share)
        if not count and has_room and self._is_within_limits(donor, receiver, 1, donor.replica_nodes[-1]):
            # The load limit was exceeded, not the capacity of nodes.
            count, node = 1, self._draft.capacity.find_node(receiver.footprint)
        if not count or node is None:
            return False
        for _ in range(count):
            self._draft.remove_last_replica(donor)
        self._draft.add_replica(receiver, node)
        self._resized_groups.add(donor)
        donor.beneficiaries.add(str(receiver.elastic.key))
        return True

    def _find_exchange(self, donor: PlannedGroup, receiver: PlannedGroup, share: float) -> tuple[int, int | None]:
        """Return how many replicas must leave so that one fits, and where; 0 if that would be too many."""
        free, footprint, donated = self._draft.capacity.free_vectors, receiver.footprint, donor.footprint.request_vector
        replica_nodes = donor.replica_nodes
        freed: dict[int, int] = {}
        has_equal_priority = donor.priority == receiver.priority
        for count in range(1, min(_MAX_DONATED_REPLICAS, len(replica_nodes) - donor.min_size) + 1):
            size = len(replica_nodes) - count
            # Among equal priorities the donor must keep the larger share.
            if count > 1 and has_equal_priority and donor.share_at(size) <= share:
                break
            node = replica_nodes[size]
            free_vector = freed[node] = freed.get(node, free[node]) + donated
            fits_there = (
                free_vector - footprint.request_vector & footprint.sign_bits == footprint.sign_bits
                and footprint.allowed_nodes[node]
            )
            if fits_there and self._is_within_limits(donor, receiver, count, node):
                return count, node
        return 0, None

    def _is_within_limits(self, donor: PlannedGroup, receiver: PlannedGroup, count: int, node: int) -> bool:
        """Return whether load limit and quota allow the receiver's replica after `count` of the donor's are removed."""
        capacity, footprint = self._draft.capacity, receiver.footprint
        released_quota = donor.footprint.request_vector * count if donor.quota is receiver.quota else 0
        if receiver.quota and not receiver.quota.may_allocate(footprint, released_quota):
            return False
        if donor.footprint.load_vector == footprint.load_vector and capacity.schedulable_nodes[node]:
            return True
        released = sum(
            donor.footprint.load_vector
            for replica_node in donor.replica_nodes[-count:]
            if capacity.schedulable_nodes[replica_node]
        )
        # If the limit is exceeded already, the load must not increase.
        change = released - footprint.load_vector
        return (
            capacity.load_headroom + change | capacity.layout.zero + change
        ) & footprint.load_sign_bits == footprint.load_sign_bits
