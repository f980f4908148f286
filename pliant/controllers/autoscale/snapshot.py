"""Builds cluster snapshots for policies; only groups that have changed are rebuilt."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from pliant.autoscale.model import (
    ClusterSnapshot,
    ElasticGroup,
    GroupKey,
    NodeResources,
    PendingPods,
    PodShape,
    ResourceAmounts,
)
from pliant.controllers.autoscale.node_usage import ClusterNodeUsage, PodPlacement
from pliant.controllers.autoscale.object_views import ClusterPod, ResourceQuota
from pliant.controllers.autoscale.pod_shapes import PodShapeCache, is_schedulable, round_down_allocatable
from pliant.controllers.autoscale.scalable_jobs import ScalableJobs, group_key, is_autoscalable, size_bounds
from pliant.kube import objects
from pliant.kube.cache.store import ObjectStore
from pliant.kube.scheduling.fit import parse_scheduling_spec
from pliant.model.job import Job, ReplicaGroup, ResizeMode
from pliant.model.labels import normalize_group_name
from pliant.model.state import GroupState
from pliant.schemas.quantity import parse_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """An elastic group, and what cooldowns depend on."""

    job_uid: str
    elastic: ElasticGroup
    is_fully_running: bool
    is_finishing: bool  # whether a replica has completed: the group is then treated like other pods
    restarts_on_resize: bool  # whether a resize restarts all replicas
    indexes: Container[int]  # of the replicas at the current size
    pod_uids: tuple[str, ...] = ()
    excess_pod_uids: tuple[str, ...] = ()  # pods beyond the size that are not being deleted yet
    observed_at: datetime | None = None  # when the job status that the snapshot used was written


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    now: datetime
    max_load: float


class SnapshotBuilder:
    def __init__(
        self,
        nodes: ObjectStore[objects.Node],
        quotas: ObjectStore[ResourceQuota],
        usage: ClusterNodeUsage,
        shapes: PodShapeCache,
        scalable_jobs: ScalableJobs,
    ) -> None:
        self._nodes = nodes
        self._quotas = quotas
        self._usage = usage
        self._shapes = shapes
        self._scalable_jobs = scalable_jobs
        self._groups_by_job: dict[str, tuple[GroupSnapshot, ...]] = {}
        self._changed_jobs: set[str] = set()
        self._allocatable: dict[str, tuple[objects.Node, dict[str, int]]] = {}

    def mark_jobs_changed(self, job_uids: Iterable[str]) -> None:
        self._changed_jobs.update(job_uids)

    def mark_nodes_changed(self) -> None:
        """Rebuild all snapshots next time: the nodes that accept pods have changed."""
        self._shapes.clear_allowed_nodes()
        self._changed_jobs.update(job.owner.uid for job in self._scalable_jobs)

    def group_snapshots(self) -> list[GroupSnapshot]:
        for uid in self._changed_jobs:
            job = self._scalable_jobs.get(uid)
            if job is None:
                self._groups_by_job.pop(uid, None)
            else:
                self._groups_by_job[uid] = tuple(self._snapshot_job(job))
        self._changed_jobs.clear()
        return [each for snapshots in self._groups_by_job.values() for each in snapshots]

    def build_cluster(
        self,
        snapshots: Mapping[GroupKey, GroupSnapshot],
        elastic_groups: Mapping[GroupKey, ElasticGroup],
        options: SnapshotOptions,
    ) -> ClusterSnapshot:
        active = [each for each in snapshots.values() if not each.is_finishing]
        elastics = tuple(elastic_groups[each.elastic.key] for each in active)
        pending = tuple(self._pending_pods({each.job_uid for each in active}))
        excluded = {uid for each in active for uid in each.pod_uids}
        if self._usage.pending:
            # Pods that leave anyway make room for pending pods: no group has to shrink for those.
            excluded.update(pod.metadata.uid for pod in self._usage.soon_freed_pods(options.now))
            excluded.update(uid for each in active for uid in each.excess_pod_uids)
        placements = self._usage.placements
        used = _usage_without(self._usage.used_by_node, (placements[uid] for uid in excluded if uid in placements))
        nodes = tuple(self._node_resources(node, used) for node in self._nodes.all())
        quotas = self._quota_headroom(active)
        return ClusterSnapshot(
            nodes=nodes, groups=elastics, pending_pods=pending, quotas=quotas, max_load=options.max_load
        )

    def _snapshot_job(self, job: Job) -> Iterable[GroupSnapshot]:
        for group in job.groups:
            group_state = self._scalable_jobs.state_of(job.owner.uid).group(group.name)
            if is_autoscalable(group) and group_state.applied_size:
                snapshot = self._snapshot_group(job, group, group_state)
                if snapshot is not None:
                    yield snapshot

    def _snapshot_group(self, job: Job, group: ReplicaGroup, group_state: GroupState) -> GroupSnapshot | None:
        size, label = group_state.applied_size or 0, normalize_group_name(group.name)
        replicas = self._usage.pods_of_job(job.owner.uid)
        indexes = replace(group, size=size, skipped_indexes=group_state.skipped_indexes).indexes
        pods = [replicas.get((label, index)) for index in indexes]
        existing = [pod for pod in pods if pod is not None]
        shape = self._pod_shape(group, existing)
        if shape is None:
            return None
        min_size, max_size = size_bounds(group)
        elastic = ElasticGroup(
            key=group_key(job, group),
            min_size=min_size,
            max_size=max_size,
            size=size,
            shape=shape,
            replica_nodes=_replica_nodes(pods),
            priority=existing[0].spec.priority if existing else 0,
            created_at=job.created_at.timestamp(),
            throughputs=tuple(sorted(group_state.throughput_by_size.items())),
        )
        return GroupSnapshot(
            job_uid=job.owner.uid,
            elastic=elastic,
            is_fully_running=all(
                pod is not None and pod.status.phase == "Running" and not pod.is_terminating for pod in pods
            ),
            is_finishing=bool(group_state.replica_outcomes),
            restarts_on_resize=group.resize_mode is ResizeMode.RESTART,
            indexes=indexes if isinstance(indexes, range) else frozenset(indexes),
            pod_uids=tuple(pod.metadata.uid for pod in existing),
            excess_pod_uids=tuple(
                pod.metadata.uid
                for (name, index), pod in replicas.items()
                if name == label and index not in indexes and not pod.is_terminating
            ),
            observed_at=self._scalable_jobs.state_of(job.owner.uid).status_written_at,
        )

    def _pod_shape(self, group: ReplicaGroup, pods: list[ClusterPod]) -> PodShape | None:
        """Return the shape of existing pods, which admission may have changed, or else of the template."""
        try:
            return self._shapes.shape_of(pods[0].spec if pods else parse_scheduling_spec(group.template))
        except (ValueError, msgspec.ValidationError):
            return None  # the API server would reject such pods

    def _pending_pods(self, job_uids: set[str]) -> Iterable[PendingPods]:
        """Yield pending pods that do not belong to a snapshot, grouped by owner and shape."""
        pods_by_kind: dict[tuple[str, PodShape, int], list[ClusterPod]] = {}
        for pod in self._usage.pending.values():
            owner = pod.owner
            if owner is not None and owner.uid in job_uids and self._is_in_snapshot(owner.uid, pod):
                continue
            if owner is not None and self._scalable_jobs.is_in_first_reconcile(owner.uid):
                continue  # its snapshot follows in a moment and may need fewer of them
            shape = self._shapes.shape_of(pod.spec)
            if (
                pod.is_blocked_by_constraints
                or shape.allowed_nodes == frozenset()
                or all(name == "pods" for name, _ in shape.requests)
            ):
                continue
            name = f"{pod.metadata.namespace}/{owner.name if owner else pod.metadata.name}"
            pods_by_kind.setdefault((name, shape, pod.spec.priority), []).append(pod)
        for (name, shape, priority), pods in pods_by_kind.items():
            yield PendingPods(
                key=name, shape=shape, count=len(pods), priority=priority, created_at=min(map(_created_at, pods))
            )

    def _is_in_snapshot(self, job_uid: str, pod: ClusterPod) -> bool:
        groups = (each.elastic for each in self._groups_by_job.get(job_uid, ()) if not each.is_finishing)
        return any(normalize_group_name(each.key.group) == pod.metadata.labels.group for each in groups)

    def _node_resources(self, node: objects.Node, used: Mapping[str, ResourceAmounts]) -> NodeResources:
        name = node.metadata.name
        known = self._allocatable.get(name)
        if known is None or known[0].status.allocatable != node.status.allocatable:
            known = self._allocatable[name] = node, round_down_allocatable(node.status.allocatable)
        return NodeResources(
            name=name, allocatable=known[1], used_by_others=used.get(name, {}), is_schedulable=is_schedulable(node)
        )

    def _quota_headroom(self, groups: Iterable[GroupSnapshot]) -> dict[str, ResourceAmounts]:
        """Return what elastic groups may use together in each namespace with a quota."""
        namespaces = {each.elastic.key.namespace for each in groups}
        quotas: dict[str, dict[str, int]] = {}
        for quota in self._quotas.all():
            namespace = quota.metadata.namespace
            if namespace in namespaces and not quota.spec.scopes and not quota.spec.scope_selector:
                _lower_limits(quotas.setdefault(namespace, {}), _quota_limits(quota))
        for namespace, limit in quotas.items():
            used_by_others = dict(self._usage.requested_by_namespace.get(namespace, {}))
            for each in groups:
                if each.elastic.key.namespace == namespace:
                    for name, amount in self._group_requests(each):
                        used_by_others[name] = used_by_others.get(name, 0) - amount
            for name in limit:
                limit[name] = max(limit[name] - used_by_others.get(name, 0), 0)
        return {namespace: limit for namespace, limit in quotas.items() if limit}

    def _group_requests(self, snapshot: GroupSnapshot) -> Iterable[tuple[str, int]]:
        label, replicas = normalize_group_name(snapshot.elastic.key.group), self._usage.pods_of_job(snapshot.job_uid)
        for (group, index), pod in replicas.items():
            if group == label and index in snapshot.indexes and not pod.is_finished:
                yield from self._shapes.requests_of(pod.spec)


def _replica_nodes(pods: list[ClusterPod | None]) -> tuple[str, ...]:
    """Return the node of each replica; missing pods at the end are left out."""
    nodes = ["" if pod is None else pod.spec.node_name for pod in pods]
    while nodes and pods[len(nodes) - 1] is None:
        nodes.pop()
    return tuple(nodes)


def _usage_without(
    used: Mapping[str, ResourceAmounts], placements: Iterable[PodPlacement]
) -> Mapping[str, ResourceAmounts]:
    changed: dict[str, dict[str, int]] = {}
    for node, requests in placements:
        node_used = changed.get(node)
        if node_used is None:
            node_used = changed[node] = dict(used.get(node, {}))
        for name, amount in requests:
            node_used[name] = node_used.get(name, 0) - amount
    return {**used, **changed}


def _created_at(pod: ClusterPod) -> float:
    at = pod.metadata.creation_timestamp
    return at.timestamp() if at else 0.0


def _quota_limits(quota: ResourceQuota) -> dict[str, int]:
    """Return a quota's limits on requests by resource name; limits on other objects are ignored."""
    hard = {
        name.removeprefix("requests.").removeprefix("count/"): value
        for name, value in quota.spec.hard.items()
        if name.startswith("requests.") or name in ("cpu", "memory", "ephemeral-storage", "pods", "count/pods")
    }
    return {name: int(parse_quantity(value) * (1000 if name == "cpu" else 1)) for name, value in hard.items()}


def _lower_limits(limits: dict[str, int], others: Mapping[str, int]) -> None:
    for name, value in others.items():
        limits[name] = min(limits.get(name, value), value)
