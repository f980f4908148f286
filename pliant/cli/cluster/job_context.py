"""Reads everything on the cluster that belongs to a job: pods, nodes, events and scale plans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.scale_plans import list_plans
from pliant.cli.durations import format_age
from pliant.controllers.node_faults import node_problems
from pliant.controllers.observe import CachedJobObjects, observe
from pliant.embedded.object_views import PodView
from pliant.engine.plans.membership import job_in_effect, match_pods_to_replicas
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.errors import Forbidden
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import EVENTS, NODES, PODS
from pliant.model import labels
from pliant.model.job import Job
from pliant.model.observed import ObservedPod
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import ScalePlan
from pliant.model.state import EngineState, JobPhase

_PLACEHOLDER_INDEX = 987654321  # replaced by a pattern for any index
# problems that the kubelet reports only as events
_START_WARNING_REASONS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox")


def pod_selector(job_object: JobObject) -> str:
    """Return the label selector of all pods of a job, including pods that its master created."""
    label = job_object.frontend.master_pods_job_label
    return f"{label or labels.JOB_NAME_LABEL}={job_object.key.name}"


def separate_master_created_pods(job: Job, pods: Iterable[Pod]) -> CachedJobObjects:
    """Split the pods of a job into those of the operator and those that its master created."""
    own: list[Pod] = []
    external: list[Pod] = []
    for pod in pods:
        managed_by = pod.metadata.labels.get(labels.MANAGED_BY_LABEL)
        is_own = not job.naming.type_label or managed_by == labels.MANAGED_BY_VALUE
        (own if is_own else external).append(pod)
    return CachedJobObjects(pods=own, external_pods=external)


def initial_state(job: Job) -> EngineState:
    """Return the state to assume for a job that no operator has reconciled yet."""
    return EngineState(phase=JobPhase.PENDING, started_at=job.created_at)


def match_job_pods(job: Job, state: EngineState | None, pods: Iterable[Pod], now: datetime) -> Replicas:
    """Match the replicas of a job in effect with its pods."""
    observed = observe(job, separate_master_created_pods(job, pods))
    return match_pods_to_replicas(job, observed, state or initial_state(job), OperatorConfig(), now)


def replica_group_of(job: Job | None, pod: Pod) -> str:
    """Return the group of a pod in lower case; empty if it has no such label."""
    return _label_value(pod.metadata.labels, labels.REPLICA_GROUP_LABEL, job.naming.type_label if job else "")


def replica_index_of(job: Job | None, pod: Pod) -> str:
    return _label_value(pod.metadata.labels, labels.REPLICA_INDEX_LABEL, job.naming.id_label if job else "")


def replica_name(job: Job | None, pod: Pod) -> str:
    """Return the name of a replica: `worker-1`."""
    return f"{replica_group_of(job, pod)}-{replica_index_of(job, pod)}"


def is_pod_name_of(job: Job, pod_name: str) -> bool:
    """Return whether a pod of this name belongs, or belonged, to the job."""
    patterns = (
        re.escape(labels.replica_pod_name(job, group.name, _PLACEHOLDER_INDEX)).replace(str(_PLACEHOLDER_INDEX), r"\d+")
        for group in job.groups
    )
    return any(re.fullmatch(pattern, pod_name) for pattern in patterns)


def _label_value(pod_labels: Mapping[str, str], label: str, master_label: str) -> str:
    return pod_labels.get(label) or pod_labels.get(master_label, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """An event of a job or of one of its pods."""

    at: datetime | None
    is_warning: bool
    reason: str
    involved_object: str  # `AITrainingJob bert`, `Pod bert-worker-0`
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What the cluster holds about one job."""

    pods: Sequence[Pod] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    events: Sequence[JobEvent] = ()  # oldest first
    # all pods of the cluster, if a pod of the job is unschedulable and the user may list them
    cluster_pods: Sequence[PodView] = ()
    plans: Sequence[ScalePlan] = ()  # oldest first
    has_retained_logs: bool = False  # whether the cluster has logs of deleted pods of the job

    def observed_pods(self, job: Job) -> tuple[ObservedPod, ...]:
        return observe(job, separate_master_created_pods(job, self.pods)).pods

    def match_replicas(self, job: Job, state: EngineState | None, now: datetime) -> tuple[Replica, ...]:
        replicas = match_job_pods(job_in_effect(job, state) if state else job, state, self.pods, now).all
        return tuple(map(self._with_start_warning, replicas))

    def _with_start_warning(self, replica: Replica) -> Replica:
        """Return a replica with the reason why it does not start from an event, if the status of its pod has none."""
        if replica.pod is None or replica.pod.start_problem or replica.state is not ReplicaState.SCHEDULED:
            return replica
        name = replica.pod.name
        created_at = next((pod.metadata.creation_timestamp for pod in self.pods if pod.metadata.name == name), None)
        warnings = [
            event
            for event in self.events
            if event.involved_object == f"Pod {name}" and event.reason in _START_WARNING_REASONS
            if created_at is None or event.at is None or event.at >= created_at
        ]
        if not warnings:
            return replica
        problem = f"{warnings[-1].reason}: {warnings[-1].message}"
        return replace(replica, pod=replace(replica.pod, start_problem=problem, start_problem_since=warnings[0].at))

    def node_problems(self, node_names: Sequence[str]) -> dict[str, str]:
        """Return the problems of these nodes; empty if the user may not list nodes."""
        if not self.nodes:
            return {}
        problems = {name: self._node_problem(name) for name in node_names}
        return {name: problem for name, problem in problems.items() if problem}

    def _node_problem(self, node_name: str) -> str:
        node = self.nodes.get(node_name)
        if node is None:
            return "does not exist any more"
        return ", ".join(problem.description for problem in node_problems(node))


async def load_job_context(client: KubeClient, job_object: JobObject) -> JobContext:
    """Read the context of a job; leave out what the user may not list."""
    pods = await list_job_pods(client, job_object)
    return JobContext(
        pods=pods,
        nodes=await _list_nodes(client),
        events=await list_job_events(client, job_object),
        cluster_pods=await _list_all_pods(client) if any(map(_is_unschedulable, pods)) else (),
        plans=await list_plans(client, job_object),
    )


def _is_unschedulable(pod: Pod) -> bool:
    return any(condition.type == "PodScheduled" and condition.status == "False" for condition in pod.status.conditions)


async def _list_all_pods(client: KubeClient) -> Sequence[PodView]:
    try:
        return (await client.list(PODS, decode_as=PodView)).items
    except Forbidden:
        return ()


async def list_job_pods(client: KubeClient, job_object: JobObject) -> list[Pod]:
    listing = await client.list(PODS, job_object.key.namespace, labels=pod_selector(job_object), decode_as=Pod)
    own = [pod for pod in listing.items if any(owner.uid == job_object.uid for owner in pod.metadata.owner_references)]
    return sorted(own, key=lambda pod: natural_sort_key(pod.metadata.name))


def natural_sort_key(name: str) -> list[int | str]:
    """Return a sort key by which `worker-10` comes after `worker-9`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


async def _list_nodes(client: KubeClient) -> dict[str, Node]:
    try:
        listing = await client.list(NODES, decode_as=Node)
    except Forbidden:
        return {}
    return {node.metadata.name: node for node in listing.items}


EVENT_COLUMNS = ("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE")


def event_rows(events: Sequence[JobEvent], now: datetime) -> list[list[str]]:
    return [
        [
            format_age(now - event.at) if event.at else "–",
            "Warning" if event.is_warning else "Normal",
            event.reason,
            event.involved_object,
            f"{event.message} (×{event.count})" if event.count > 1 else event.message,
        ]
        for event in events
    ]


async def list_job_events(client: KubeClient, job_object: JobObject) -> list[JobEvent]:
    """Return the events of a job and of its pods, including deleted pods; the latest last."""
    listing = await client.list(EVENTS, job_object.key.namespace)
    events = [_parse_event(raw) for raw in listing.items if is_event_about(raw, job_object)]
    return sorted(events, key=lambda event: event.at.timestamp() if event.at else 0.0)


def is_event_about(event: Mapping[str, Any], job_object: JobObject) -> bool:
    involved = event.get("involvedObject") or {}
    kind, name = involved.get("kind"), str(involved.get("name", ""))
    if kind == job_object.frontend.kind and name == job_object.key.name:
        return str(involved.get("uid", job_object.uid)) == job_object.uid  # not a deleted job of the same name
    if kind != "Pod" or job_object.job is None:
        return False
    at, created_at = _event_time(event), job_object.created_at
    return is_pod_name_of(job_object.job, name) and (at is None or created_at is None or at >= created_at)


def _parse_event(event: Mapping[str, Any]) -> JobEvent:
    involved = event.get("involvedObject") or {}
    return JobEvent(
        at=_event_time(event),
        is_warning=event.get("type") == "Warning",
        reason=str(event.get("reason") or ""),
        involved_object=f"{involved.get('kind', '')} {involved.get('name', '')}",
        message=" ".join(str(event.get("message") or "").split()),
        count=int((event.get("series") or {}).get("count") or event.get("count") or 1),
    )


def _event_time(event: Mapping[str, Any]) -> datetime | None:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    text = next((str(time) for time in times if time), event.get("metadata", {}).get("creationTimestamp"))
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")) if text else None
