"""Who gets what nobody must have: the worst off first, at the expense of the best off if need be.

The more important groups have all they may have before others get more than they must have. Among equals, whoever
is on the lowest level has the next place. Where there is none, somebody gives a place who is less important, or as
important and still better off without it. Every such step is strictly better for the worst off of those concerned,
so it is never taken back and there is an end to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from itertools import groupby

from pliant.autoscale.model import SizeReason
from pliant.autoscale.planning.draft import PlanDraft
from pliant.autoscale.planning.planned_group import UNPINNED, PlannedGroup
from pliant.autoscale.planning.preemption import PreemptionCandidates, PreemptionRequest

ShareEntry = tuple[float, int, PlannedGroup]
"""How well off a crew is, its number, and itself."""
_MAX_PASSES = 50
"""A limit to what one plan may cost; hardly ever are there more than three. The next plan goes on."""
_MAX_DONATED_REPLICAS = 8
"""How many places a group gives at once to one that needs more room."""


class ShareAllocator:
    """Hands out what is left."""

    def __init__(self, draft: PlanDraft) -> None:
        self._draft = draft
        self._groups = [crew for crew in draft.groups if not crew.is_fixed]
        self._candidates: PreemptionCandidates | None = None
        self._exchange_count = 0
        self._resized_groups: set[PlannedGroup] = set()
        """Crews that others know by a size they no longer have."""

    def balance(self) -> None:
        """Until nothing gets better."""
        for _ in range(_MAX_PASSES):
            before = self._exchange_count
            for _, crews in groupby(self._groups, key=lambda crew: crew.priority):
                self._grow_groups(crews)
            if self._exchange_count == before:
                return
            if self._candidates:
                self._candidates.refresh(crew for crew in self._resized_groups if crew.elastic.may_shrink)
            self._resized_groups.clear()

    def _grow_groups(self, groups: Iterable[PlannedGroup]) -> None:
        """Give places to crews that are equally important for as long as there are any."""
        kinds: dict[tuple[int, int], list[ShareEntry]] = {}
        for crew in groups:
            # Who could not have the least it must have gets nothing here: a few members more would not help it.
            if crew.min_size <= len(crew.replica_nodes) < crew.max_planned_size:
                kinds.setdefault((id(crew.footprint), id(crew.quota)), []).append((crew.share, crew.order_index, crew))
        for entries in kinds.values():
            heapify(entries)
        heads = [(entries[0][:2], kind) for kind, entries in kinds.items()]
        heapify(heads)
        while heads:
            _, kind = heads[0]
            entries = kinds[kind]
            crew = entries[0][2]
            if self._try_grow(crew) and len(crew.replica_nodes) < crew.max_planned_size:
                heapreplace(entries, (crew.share, crew.order_index, crew))
            elif len(crew.replica_nodes) == crew.max_planned_size or crew.next_pinned_node != UNPINNED:
                heappop(entries)
            else:
                entries.clear()  # others of its kind would fare no better
            if entries:
                heapreplace(heads, (entries[0][:2], kind))
            else:
                heappop(heads)

    def _try_grow(self, group: PlannedGroup) -> bool:
        """Have one more member come if there is a place for it, or somebody gives one."""
        hindrance = self._draft.exceeded_limit(group)
        node = None if hindrance else self._draft.find_node(group)
        if node is not None:
            self._draft.add_replica(group, node)
        elif group.next_pinned_node != UNPINNED or not self._try_preempt(group, hindrance):
            return False
        if self._candidates:
            self._resized_groups.add(group)
        return True

    def _try_preempt(self, group: PlannedGroup, exceeded_limit: SizeReason | None) -> bool:
        """Whether somebody has given this one a place."""
        if self._candidates is None:
            self._candidates = PreemptionCandidates(each for each in self._groups if each.elastic.may_shrink)
        purse, level = group.quota if exceeded_limit is SizeReason.QUOTA_EXHAUSTED else None, group.share

        def gives(giver: PlannedGroup) -> bool | None:
            if purse is not None and giver.quota is not purse:
                return None
            return self._try_exchange(giver, group, level, exceeded_limit is not None) or None

        asker = PreemptionRequest(group.priority, level, (id(group.footprint), id(group.quota), group.priority))
        is_given = bool(self._candidates.find_first(asker, gives))
        self._exchange_count += is_given
        return is_given

    def _try_exchange(self, donor: PlannedGroup, receiver: PlannedGroup, share: float, has_room: bool) -> bool:
        """Have a few members of one leave if one of the other can come then."""
        number, node = self._exchange_cost(donor, receiver, share)
        if not number and has_room and self._is_within_limits(donor, receiver, 1, donor.replica_nodes[-1]):
            # Not room was short but what may be given away of it.
            number, node = 1, self._draft.capacity.find_node(receiver.footprint)
        if not number or node is None:
            return False
        for _ in range(number):
            self._draft.remove_last_replica(donor)
        self._draft.add_replica(receiver, node)
        self._resized_groups.add(donor)
        donor.beneficiaries.add(str(receiver.elastic.key))
        return True

    def _exchange_cost(self, donor: PlannedGroup, receiver: PlannedGroup, share: float) -> tuple[int, int | None]:
        """How many members must leave so that one can come, and where; 0 if more would have to than should."""
        free, foot, gift = self._draft.capacity.free_vectors, receiver.footprint, donor.footprint.request_vector
        seats = donor.replica_nodes
        left: dict[int, int] = {}
        is_equal = donor.priority == receiver.priority
        for number in range(1, min(_MAX_DONATED_REPLICAS, len(seats) - donor.min_size) + 1):
            size = len(seats) - number
            # Of equals only those are asked that are better off when one has left.
            if number > 1 and is_equal and donor.share_at(size) <= share:
                break
            node = seats[size]
            room = left[node] = left.get(node, free[node]) + gift
            fits = room - foot.request_vector & foot.sign_bits == foot.sign_bits and foot.allowed_nodes[node]
            if fits and self._is_within_limits(donor, receiver, number, node):
                return number, node
        return 0, None

    def _is_within_limits(self, donor: PlannedGroup, receiver: PlannedGroup, count: int, node: int) -> bool:
        """Whether limits of load and quota let one come when so many have left."""
        floor, foot = self._draft.capacity, receiver.footprint
        if receiver.quota and not receiver.quota.may_allocate(
            foot, donor.footprint.request_vector * count if donor.quota is receiver.quota else 0
        ):
            return False
        if donor.footprint.load_vector == foot.load_vector and floor.schedulable_nodes[node]:
            return True
        returned = sum(
            donor.footprint.load_vector for seat in donor.replica_nodes[-count:] if floor.schedulable_nodes[seat]
        )
        # Where too much is given away already, it must be no more than before.
        change = returned - foot.load_vector
        return (floor.load_headroom + change | floor.layout.zero + change) & foot.load_sign_bits == foot.load_sign_bits
