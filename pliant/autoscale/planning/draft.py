"""A plan in the making: the floor, everybody on it, and what may be taken back."""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, PendingPods, PodShape, SizeReason
from pliant.autoscale.planning.capacity import LOAD_LIMITED_RESOURCES, NodeCapacity, quota_budgets
from pliant.autoscale.planning.messages import format_requests
from pliant.autoscale.planning.planned_group import UNPINNED, PlannedGroup, place_existing_replicas
from pliant.autoscale.ranking import GroupRanking

ReasonMessage = tuple[SizeReason, str]


class PlanDraft:
    """Where everybody would sit."""

    def __init__(self, cluster: ClusterSnapshot, ranking: GroupRanking) -> None:
        self.cluster = cluster
        self.capacity = floor = NodeCapacity(cluster)
        footprint = floor.footprint_of
        self.groups = [PlannedGroup(each, ranking(each), footprint(each.shape)) for each in cluster.groups]
        self.groups.sort(key=_group_order)
        self.placed_pods: list[tuple[PendingPods, int]] = []
        """Where pods would go that wait and are no members of any crew."""
        self._request_texts: dict[PodShape, str] = {}
        limits = quota_budgets(cluster, floor.layout)
        for number, crew in enumerate(self.groups):
            crew.order_index = number
            place_existing_replicas(crew, floor)
            crew.quota = limits.get(crew.elastic.key.namespace) if limits else None
            if crew.quota:
                for _ in crew.replica_nodes:
                    crew.quota.allocate(crew.footprint)
            while len(crew.replica_nodes) > crew.elastic.max_size and not crew.is_fixed:
                self.remove_last_replica(crew)

    def add_replica(self, group: PlannedGroup, node: int) -> None:
        """Have one more member sit there."""
        self.capacity.allocate(group.footprint, node)
        if group.quota:
            group.quota.allocate(group.footprint)
        group.replica_nodes.append(node)

    def remove_last_replica(self, group: PlannedGroup) -> int:
        """Have the last member leave; the node it leaves."""
        node = group.replica_nodes.pop()
        self.capacity.release(group.footprint, node)
        if group.quota:
            group.quota.release(group.footprint)
        return node

    def find_node(self, group: PlannedGroup) -> int | None:
        """Where one more member could sit, limits of load and quota aside."""
        home = group.next_pinned_node
        if home == UNPINNED:
            return self.capacity.find_node(group.footprint)
        return home if home == self.capacity.unknown_node or self.capacity.has_room(group.footprint, home) else None

    def exceeded_limit(self, group: PlannedGroup) -> SizeReason | None:
        """The kind of limit that one more member would break, wherever it sat."""
        if group.quota and not group.quota.may_allocate(group.footprint):
            return SizeReason.QUOTA_EXHAUSTED
        return None if self.capacity.is_within_load(group.footprint) else SizeReason.NO_CAPACITY

    def explain_no_growth(self, group: PlannedGroup) -> ReasonMessage:
        """Why no more can come."""
        if group.quota and not group.quota.may_allocate(group.footprint):
            return SizeReason.QUOTA_EXHAUSTED, f"the quota of namespace {group.elastic.key.namespace} is used up"
        floor, shape = self.capacity, group.footprint.shape
        if floor.is_within_load(group.footprint) or self.find_node(group) is None:
            return SizeReason.NO_CAPACITY, f"no node has {self._requests_text(shape)} free"
        short = (
            name
            for name, amount in shape.requests
            if name in LOAD_LIMITED_RESOURCES and amount > floor.layout.amount_of(floor.load_headroom, name)
        )
        return SizeReason.NO_CAPACITY, load_limit_message(next(short), self.cluster.max_load)

    def _requests_text(self, shape: PodShape) -> str:
        if shape not in self._request_texts:
            self._request_texts[shape] = format_requests(shape)
        return self._request_texts[shape]


def load_limit_message(resource: str, max_load: float) -> str:
    """That no more of a resource may be given away."""
    return f"no more than {max_load:.0%} of all {'CPU' if resource == 'cpu' else resource} may be given away"


def _group_order(group: PlannedGroup) -> tuple[object, ...]:
    return -group.priority, group.tie_breaker, group.elastic.created_at, group.elastic.key
