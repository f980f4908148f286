"""A group during planning: the node of each replica, and the bounds of its size.

Groups shrink from the highest index, so the replicas are a stack. A scheduled replica keeps its node: if a group
loses its last replica and grows again in the same plan, it gets that replica back on the same node, or none.
"""

from __future__ import annotations

from pliant.autoscale.model import ElasticGroup, SizeReason
from pliant.autoscale.planning.capacity import NodeCapacity, PodFootprint, QuotaBudget
from pliant.autoscale.ranking import GroupRank

UNPINNED = -1


class PlannedGroup:
    __slots__ = (
        "_cached_share", "beneficiaries", "elastic", "footprint", "is_fixed", "max_planned_size", "min_size",
        "order_index", "pinned_nodes", "priority", "quota", "replica_nodes", "share_at", "sheds_overload",
        "shrink_reason", "tie_breaker",
    )  # fmt: skip

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
        self.order_index = 0  # the position among all groups: higher priority first, then older
        self.quota: QuotaBudget | None = None
        self.replica_nodes: list[int] = []  # the planned nodes of replicas by index
        self.pinned_nodes: list[int] = []
        """The node to which the replica of each index is bound, because it runs there; else UNPINNED."""
        self.shrink_reason: tuple[SizeReason, str] | None = None  # why replicas were removed
        self.beneficiaries: set[str] = set()  # the groups that received its replicas

    @property
    def next_pinned_node(self) -> int:
        """The node to which the next replica is bound, or UNPINNED."""
        size = len(self.replica_nodes)
        return self.pinned_nodes[size] if size < len(self.pinned_nodes) else UNPINNED

    @property
    def share(self) -> float:
        """The share at the current size; cached, since policies may compute it expensively."""
        size = len(self.replica_nodes)
        if self._cached_share[0] != size:
            self._cached_share = size, self.share_at(size)
        return self._cached_share[1]

    @property
    def keeps_pending_replicas(self) -> bool:
        """Whether unscheduled replicas keep waiting instead of being removed."""
        return self.is_fixed or not self.elastic.may_shrink

    @property
    def planned_size(self) -> int:
        """The planned size; replicas below the minimum size stay pending if they do not fit."""
        elastic = self.elastic
        if self.is_fixed:
            return elastic.size
        return max(len(self.replica_nodes), min(elastic.size, self.min_size))


def has_resource_requests(elastic: ElasticGroup) -> bool:
    """Return whether the replicas request resources from which the number that fits follows."""
    return any(name != "pods" for name, _ in elastic.shape.requests)


def _max_planned_size(elastic: ElasticGroup, is_fixed: bool) -> int:
    if is_fixed:
        return elastic.size
    if not elastic.may_grow:
        return min(elastic.max_size, max(elastic.min_size, elastic.size))
    return elastic.max_size


def place_existing_replicas(group: PlannedGroup, capacity: NodeCapacity) -> None:
    """Place running replicas on their nodes, and fill gaps with the nodes of the last replicas.

    An unscheduled replica would get the node of the last one if the group were one smaller. The result is the
    largest size at which no replica is pending.
    """
    elastic, position, unknown_node = group.elastic, capacity.node_positions, capacity.unknown_node
    nodes = [position.get(name, unknown_node) if name else UNPINNED for name in elastic.replica_nodes[: elastic.size]]
    if len(nodes) == elastic.size and UNPINNED not in nodes:
        group.replica_nodes, group.pinned_nodes = nodes, nodes[:]
        return
    nodes += [UNPINNED] * (elastic.size - len(nodes))
    gaps, movable, pinned = nodes.count(UNPINNED), [], []
    while gaps:
        node = nodes.pop()
        if node == UNPINNED:
            gaps -= 1
            pinned.append(UNPINNED)
        elif group.footprint.allowed_nodes[node]:
            gaps -= 1
            movable.append(node)
            pinned.append(UNPINNED)
        else:
            capacity.release(group.footprint, node)
            pinned.append(node)
    group.replica_nodes = [movable.pop() if node == UNPINNED else node for node in nodes]
    group.pinned_nodes = group.replica_nodes + pinned[::-1]
