"""A cluster as policies see it, kept from one change to the next: only what changed is drawn anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from pliant.controllers.autoscale.pod_shapes import PodRequests, PodShapeCache, is_schedulable, round_down_allocatable
from pliant.controllers.autoscale.scalable_jobs import ScalableJobs, group_key, is_autoscalable, size_bounds
from pliant.kube import objects
from pliant.kube.cache.store import ObjectStore
from pliant.kube.quantity import parse_quantity
from pliant.kube.scheduling.fit import scheduling_spec
from pliant.model.job import Job, ReplicaGroup, ResizeMode
from pliant.model.labels import normalize_group_name
from pliant.model.state import GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A group as it is drawn, and what pacing has to know of it."""

    job_uid: str
    """Of its job."""
    elastic: ElasticGroup
    is_fully_running: bool
    """Whether every member runs."""
    is_finishing: bool
    """Whether one has ended its work: it is drawn as pods like any other."""
    restarts_on_resize: bool
    """Whether a resize starts all members again."""
    pod_uids: tuple[str, ...] = ()
    """Its pods, by uid."""
    excess_pod_uids: tuple[str, ...] = ()
    """Pods beyond its size: they are about to be told to go, if they have not been."""
    observed_at: datetime | None = None
    """Until when the story of its job was known."""


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """When a cluster is drawn, and how full it may become."""

    now: datetime
    max_load: float


class SnapshotBuilder:
    """Draws clusters from what is known of nodes, pods, quotas and jobs."""

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
        """Draw these jobs anew the next time."""
        self._changed_jobs.update(job_uids)

    def mark_nodes_changed(self) -> None:
        """Draw everything anew, as nodes have come, gone or been marked: they take others now."""
        self._shapes.clear_allowed_nodes()
        self._changed_jobs.update(job.owner.uid for job in self._scalable_jobs)

    def group_snapshots(self) -> list[GroupSnapshot]:
        """Every group that may be set, up to date."""
        for uid in self._changed_jobs:
            job = self._scalable_jobs.get(uid)
            if job is None:
                self._groups_by_job.pop(uid, None)
            else:
                self._groups_by_job[uid] = tuple(self._snapshot_job(job))
        self._changed_jobs.clear()
        return [each for drawn in self._groups_by_job.values() for each in drawn]

    def build_cluster(
        self,
        snapshots: Mapping[GroupKey, GroupSnapshot],
        elastic_groups: Mapping[GroupKey, ElasticGroup],
        options: SnapshotOptions,
    ) -> ClusterSnapshot:
        """The cluster with these groups as the ones that may be set, as far as each may be now."""
        moving = [each for each in snapshots.values() if not each.is_finishing]
        elastics = tuple(elastic_groups[each.elastic.key] for each in moving)
        claims = tuple(self._pending_pods({each.job_uid for each in moving}))
        spared = {uid for each in moving for uid in each.pod_uids}
        if self._usage.pending:
            # Who is leaving makes room for those who wait: nobody else has to go on their account.
            spared.update(pod.metadata.uid for pod in self._usage.soon_freed_pods(options.now))
            spared.update(uid for each in moving for uid in each.excess_pod_uids)
        seats = self._usage.placements
        taken = _usage_without(self._usage.used_by_node, (seats[uid] for uid in spared if uid in seats))
        nodes = tuple(self._node_resources(node, taken) for node in self._nodes.all())
        limits = self._quota_headroom(moving)
        return ClusterSnapshot(
            nodes=nodes, groups=elastics, pending_pods=claims, quotas=limits, max_load=options.max_load
        )

    def _snapshot_job(self, job: Job) -> Iterable[GroupSnapshot]:
        for group in job.groups:
            memory = job.state.group(group.name) if job.state else GroupState()
            if is_autoscalable(group) and memory.applied_size:
                found = self._snapshot_group(job, group, memory)
                if found is not None:
                    yield found

    def _snapshot_group(self, job: Job, group: ReplicaGroup, group_state: GroupState) -> GroupSnapshot | None:
        size, label = group_state.applied_size or 0, normalize_group_name(group.name)
        members = self._usage.pods_of_job(job.owner.uid)
        pods = [members.get((label, index)) for index in range(size)]
        there = [pod for pod in pods if pod is not None]
        shape = self._pod_shape(group, there)
        if shape is None:
            return None
        least, most = size_bounds(group)
        elastic = ElasticGroup(
            key=group_key(job, group),
            min_size=least,
            max_size=most,
            size=size,
            shape=shape,
            replica_nodes=_replica_nodes(pods),
            priority=there[0].spec.priority if there else 0,
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
            pod_uids=tuple(pod.metadata.uid for pod in there),
            excess_pod_uids=tuple(
                pod.metadata.uid
                for (name, index), pod in members.items()
                if name == label and index >= size and not pod.is_terminating
            ),
            observed_at=job.state.status_written_at if job.state else None,
        )

    def _pod_shape(self, group: ReplicaGroup, pods: list[ClusterPod]) -> PodShape | None:
        """The shape of its members: of those that are there, as what they were given on the way counts."""
        try:
            return self._shapes.shape_of(pods[0].spec if pods else scheduling_spec(group.template))
        except (ValueError, msgspec.ValidationError):
            return None  # no pod will ever be made of that

    def _pending_pods(self, job_uids: set[str]) -> Iterable[PendingPods]:
        """Everybody who waits and is no member of a group that is drawn, alike ones together."""
        together: dict[tuple[str, PodShape, int], list[ClusterPod]] = {}
        for pod in self._usage.pending.values():
            owner = pod.owner
            if owner is not None and owner.uid in job_uids and self._is_in_snapshot(owner.uid, pod):
                continue
            if owner is not None and self._scalable_jobs.is_in_first_pass(owner.uid):
                continue  # which of them it could do without is known in a moment
            shape = self._shapes.shape_of(pod.spec)
            if (
                pod.is_unschedulable_anyway
                or shape.allowed_nodes == frozenset()
                or not _has_resource_requests(shape.requests)
            ):
                continue
            name = f"{pod.metadata.namespace}/{owner.name if owner else pod.metadata.name}"
            together.setdefault((name, shape, pod.spec.priority), []).append(pod)
        for (name, shape, priority), pods in together.items():
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
        """What the members of elastic groups may take up in each namespace with a quota."""
        namespaces = {each.elastic.key.namespace for each in groups}
        limits: dict[str, dict[str, int]] = {}
        for quota in self._quotas.all():
            namespace = quota.metadata.namespace
            if namespace in namespaces and not quota.spec.scopes and not quota.spec.scope_selector:
                _lower_limits(limits.setdefault(namespace, {}), _quota_limits(quota))
        for namespace, limit in limits.items():
            others = dict(self._usage.requested_by_namespace.get(namespace, {}))
            for each in groups:
                if each.elastic.key.namespace == namespace:
                    for name, number in self._group_requests(each):
                        others[name] = others.get(name, 0) - number
            for name in limit:
                limit[name] = max(limit[name] - others.get(name, 0), 0)
        return {namespace: limit for namespace, limit in limits.items() if limit}

    def _group_requests(self, snapshot: GroupSnapshot) -> Iterable[tuple[str, int]]:
        """What the pods of a group ask for, whether or not they have a node."""
        label, members = normalize_group_name(snapshot.elastic.key.group), self._usage.pods_of_job(snapshot.job_uid)
        for (group, index), pod in members.items():
            if group == label and index < snapshot.elastic.size and not pod.is_finished:
                yield from self._shapes.requests_of(pod.spec)


def _replica_nodes(pods: list[ClusterPod | None]) -> tuple[str, ...]:
    """The node of each member; one that is about to come back has its old one."""
    places = ["" if pod is None else pod.spec.node_name for pod in pods]
    while places and pods[len(places) - 1] is None:
        places.pop()
    return tuple(places)


def _usage_without(
    used: Mapping[str, ResourceAmounts], placements: Iterable[PodPlacement]
) -> Mapping[str, ResourceAmounts]:
    """What is taken of nodes beside what sits there on these seats."""
    taken: dict[str, dict[str, int]] = {}
    for node, needs in placements:
        sums = taken.get(node)
        if sums is None:
            sums = taken[node] = dict(used.get(node, {}))
        for name, number in needs:
            sums[name] = sums.get(name, 0) - number
    return {**used, **taken}


def _has_resource_requests(requests: PodRequests) -> bool:
    return any(name != "pods" for name, _ in requests)


def _created_at(pod: ClusterPod) -> float:
    at = pod.metadata.creation_timestamp
    return at.timestamp() if at else 0.0


def _quota_limits(quota: ResourceQuota) -> dict[str, int]:
    """A quota's limits by the names that pods ask by; those on other things than requests are not looked at."""
    asked = {
        name.removeprefix("requests.").removeprefix("count/"): value
        for name, value in quota.spec.hard.items()
        if name.startswith("requests.") or name in ("cpu", "memory", "ephemeral-storage", "pods", "count/pods")
    }
    return {name: int(parse_quantity(value) * (1000 if name == "cpu" else 1)) for name, value in asked.items()}


def _lower_limits(limits: dict[str, int], others: Mapping[str, int]) -> None:
    for name, value in others.items():
        limits[name] = min(limits.get(name, value), value)
