"""A plan in progress: capacity, groups, and where replicas and pending pods would run."""

from __future__ import annotations

from functools import lru_cache

from pliant.autoscale.model import ClusterSnapshot, PendingPods, PodShape, SizeReason
from pliant.autoscale.planning.capacity import LOAD_LIMITED_RESOURCES, NodeCapacity, quota_budget_by_namespace
from pliant.autoscale.planning.planned_group import UNPINNED, PlannedGroup, place_existing_replicas
from pliant.autoscale.ranking import GroupRanking

ReasonMessage = tuple[SizeReason, str]
_MEMORY_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


class PlanDraft:
    def __init__(self, cluster: ClusterSnapshot, ranking: GroupRanking) -> None:
        self.cluster = cluster
        self.capacity = capacity = NodeCapacity(cluster)
        footprint = capacity.footprint_of
        self.groups = [PlannedGroup(each, ranking(each), footprint(each.shape)) for each in cluster.groups]
        self.groups.sort(key=_group_order)
        self.placed_pods: list[tuple[PendingPods, int]] = []
        """The planned nodes of pending pods that belong to no elastic group."""
        quotas = quota_budget_by_namespace(cluster, capacity.layout)
        for index, group in enumerate(self.groups):
            group.order_index = index
            place_existing_replicas(group, capacity)
            group.quota = quotas.get(group.elastic.key.namespace) if quotas else None
            if group.quota:
                for _ in group.replica_nodes:
                    group.quota.allocate(group.footprint)
            while len(group.replica_nodes) > group.elastic.max_size and not group.is_fixed:
                self.remove_last_replica(group)

    def add_replica(self, group: PlannedGroup, node: int) -> None:
        self.capacity.allocate(group.footprint, node)
        if group.quota:
            group.quota.allocate(group.footprint)
        group.replica_nodes.append(node)

    def remove_last_replica(self, group: PlannedGroup) -> int:
        node = group.replica_nodes.pop()
        self.capacity.release(group.footprint, node)
        if group.quota:
            group.quota.release(group.footprint)
        return node

    def find_node_for_replica(self, group: PlannedGroup) -> int | None:
        """Return a node for one more replica, or None; load limit and quota are not checked."""
        pinned = group.next_pinned_node
        if pinned == UNPINNED:
            return self.capacity.find_node(group.footprint)
        has_room = pinned == self.capacity.unknown_node or self.capacity.has_room(group.footprint, pinned)
        return pinned if has_room else None

    def exceeded_limit(self, group: PlannedGroup) -> SizeReason | None:
        """Return which limit one more replica would exceed on any node."""
        if group.quota and not group.quota.may_allocate(group.footprint):
            return SizeReason.QUOTA_EXCEEDED
        return None if self.capacity.fits_load_limit(group.footprint) else SizeReason.INSUFFICIENT_CAPACITY

    def explain_no_growth(self, group: PlannedGroup) -> ReasonMessage:
        if group.quota and not group.quota.may_allocate(group.footprint):
            return SizeReason.QUOTA_EXCEEDED, f"the quota of namespace {group.elastic.key.namespace} is exhausted"
        capacity, shape = self.capacity, group.footprint.shape
        if capacity.fits_load_limit(group.footprint) or self.find_node_for_replica(group) is None:
            return SizeReason.INSUFFICIENT_CAPACITY, f"no node has {format_requests(shape)} free"
        exhausted = (
            name
            for name, amount in shape.requests
            if name in LOAD_LIMITED_RESOURCES and amount > capacity.layout.amount_of(capacity.load_headroom, name)
        )
        return SizeReason.INSUFFICIENT_CAPACITY, load_limit_message(next(exhausted), self.cluster.max_load)


def load_limit_message(resource: str, max_load: float) -> str:
    return f"no more than {max_load:.0%} of all {'CPU' if resource == 'cpu' else resource} may be allocated"


def _group_order(group: PlannedGroup) -> tuple[object, ...]:
    return -group.priority, group.tie_breaker, group.elastic.created_at, group.elastic.key


@lru_cache(maxsize=1024)
def format_requests(shape: PodShape) -> str:
    """Render requests, for example `5 CPU and 8 GiB`."""
    amounts = [format_amount(name, amount) for name, amount in shape.requests if name != "pods"]
    if not amounts:
        return "capacity for a pod"
    return " and ".join([", ".join(amounts[:-1]), amounts[-1]] if amounts[1:] else amounts)


def format_amount(resource: str, amount: int) -> str:
    """Render an amount: `5 CPU`, `8 GiB`, `2 nvidia.com/gpu`."""
    if resource == "cpu":
        return f"{amount / 1000:g} CPU"
    if resource != "memory":
        return f"{amount} {resource}"
    for unit, size in _MEMORY_UNITS:
        if amount >= size:
            return f"{round(amount / size, 1):g} {unit}"
    return f"{amount} bytes of memory"


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
