"""Groups while a plan is in the making: who sits where, and who may still come or go.

Only sizes can be planned, and whoever leaves first has the highest index. So the members of a group are a stack:
one that comes goes on top, one that leaves is taken from there. A member that has a node stays there until it is
taken off: if a group gives its last member away and grows again in the same plan, it has that member back on the
node where it really is, or nobody.
"""

from __future__ import annotations

from pliant.autoscale.model import ElasticGroup, SizeReason
from pliant.autoscale.planning.capacity import NodeCapacity, PodFootprint, QuotaBudget
from pliant.autoscale.ranking import GroupRank

UNPINNED = -1


class PlannedGroup:
    """The members of one group."""

    __slots__ = (
        "_cached_share",
        "beneficiaries",
        "elastic",
        "footprint",
        "is_fixed",
        "max_planned_size",
        "min_size",
        "order_index",
        "pinned_nodes",
        "priority",
        "quota",
        "replica_nodes",
        "share_at",
        "sheds_overload",
        "shrink_reason",
        "tie_breaker",
    )

    def __init__(self, elastic: ElasticGroup, rank: GroupRank, footprint: PodFootprint) -> None:
        self.elastic = elastic
        self.footprint = footprint
        self.share_at = rank.share_at
        self.tie_breaker = rank.tie_breaker
        self.sheds_overload = rank.sheds_overload
        self.priority = elastic.priority
        self.is_fixed = elastic.is_fixed or not has_resource_requests(elastic)
        self.min_size = min(elastic.min_size, elastic.size if self.is_fixed else elastic.max_size)
        self.max_planned_size = _max_planned_size(elastic, self.is_fixed)
        self._cached_share: tuple[int, float] = (-1, 0.0)
        self.order_index = 0
        """Its place among all crews: the more important first, then the older."""
        self.quota: QuotaBudget | None = None
        self.replica_nodes: list[int] = []
        """The nodes of members by index, as planned so far."""
        self.pinned_nodes: list[int] = []
        """Where a member of this index must sit, since it does; or anywhere."""
        self.shrink_reason: tuple[SizeReason, str] | None = None
        """Why members have left."""
        self.beneficiaries: set[str] = set()
        """Who has got a place of it as a share."""

    @property
    def next_pinned_node(self) -> int:
        """Where the next member must sit, or anywhere."""
        size = len(self.replica_nodes)
        return self.pinned_nodes[size] if size < len(self.pinned_nodes) else UNPINNED

    @property
    def share(self) -> float:
        """The level it is on; policies may have to think about it, so it is asked once for a size."""
        size = len(self.replica_nodes)
        if self._cached_share[0] != size:
            self._cached_share = size, self.share_at(size)
        return self._cached_share[1]

    @property
    def keeps_pending_replicas(self) -> bool:
        """Whether members without a node go on waiting for one instead of being given up."""
        return self.is_fixed or not self.elastic.may_shrink

    @property
    def planned_size(self) -> int:
        """The size that is planned: members below the least size wait for room if there is none."""
        elastic = self.elastic
        if self.is_fixed:
            return elastic.size
        return max(len(self.replica_nodes), min(elastic.size, self.min_size))


def has_resource_requests(elastic: ElasticGroup) -> bool:
    """Whether its members ask for something by which one can tell how many fit."""
    return any(name != "pods" for name, _ in elastic.shape.requests)


def _max_planned_size(elastic: ElasticGroup, is_fixed: bool) -> int:
    if is_fixed:
        return elastic.size
    if not elastic.may_grow:
        return min(elastic.max_size, max(elastic.min_size, elastic.size))
    return elastic.max_size


def place_existing_replicas(group: PlannedGroup, capacity: NodeCapacity) -> None:
    """Put members where they are, and fill the gaps among them from behind.

    A member without a node would have that of the last one, if the group were smaller by that one. What is left is
    the largest size at which nobody waits.
    """
    elastic, position, nowhere = group.elastic, capacity.node_positions, capacity.unknown_node
    seats = [position.get(place, nowhere) if place else UNPINNED for place in elastic.replica_nodes[: elastic.size]]
    if len(seats) == elastic.size and UNPINNED not in seats:
        group.replica_nodes, group.pinned_nodes = seats, seats[:]
        return
    seats += [UNPINNED] * (elastic.size - len(seats))
    gaps, spare, homes = seats.count(UNPINNED), [], []
    while gaps:
        seat = seats.pop()
        if seat == UNPINNED:
            gaps -= 1
            homes.append(UNPINNED)
        elif group.footprint.allowed_nodes[seat]:
            gaps -= 1
            spare.append(seat)
            homes.append(UNPINNED)
        else:
            capacity.release(group.footprint, seat)
            homes.append(seat)
    group.replica_nodes = [spare.pop() if seat == UNPINNED else seat for seat in seats]
    group.pinned_nodes = group.replica_nodes + homes[::-1]
