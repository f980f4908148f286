"""Who a pod is in its job, whoever made it: the operator, or the job's own master."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.scale_plans import list_plans
from pliant.controllers.node_faults import node_problems
from pliant.controllers.observe import CachedJobObjects, observe
from pliant.embedded.object_views import PodView
from pliant.engine.pods.replicas import Replica, match_pods
from pliant.engine.sizing import with_applied_sizes
from pliant.errors import Forbidden
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import EVENTS, NODES, PODS
from pliant.model import labels
from pliant.model.job import Job
from pliant.model.observed import ObservedPod
from pliant.model.scale_plans import ScalePlan
from pliant.model.state import EngineState, JobPhase

_PLACEHOLDER_INDEX = 987654321
"""Stands for the number of a member while its name becomes a pattern."""


def pod_selector(job_object: JobObject) -> str:
    """Labels that all pods of a job carry, also those that its master made."""
    label = job_object.frontend.external_pods_label
    return f"{label or labels.JOB_NAME_LABEL}={job_object.key.name}"


def partition_pods(job: Job, pods: Iterable[Pod]) -> CachedJobObjects:
    """The pods of a job the way decisions see them: ours, and those that its master made."""
    own: list[Pod] = []
    foreign: list[Pod] = []
    for pod in pods:
        is_ours = (
            not job.naming.type_label or pod.metadata.labels.get(labels.MANAGED_BY_LABEL) == labels.MANAGED_BY_VALUE
        )
        (own if is_ours else foreign).append(pod)
    return CachedJobObjects(pods=own, external_pods=foreign)


def pod_group(job: Job | None, pod: Pod) -> str:
    """The group of a pod, in the words of labels; empty if it says none."""
    return _label_value(pod.metadata.labels, labels.REPLICA_NAME_LABEL, job.naming.type_label if job else "")


def pod_index(job: Job | None, pod: Pod) -> str:
    """Its number in that group."""
    return _label_value(pod.metadata.labels, labels.REPLICA_INDEX_LABEL, job.naming.id_label if job else "")


def replica_name(job: Job | None, pod: Pod) -> str:
    """What people call a member: `worker-1`."""
    return f"{pod_group(job, pod)}-{pod_index(job, pod)}"


def is_pod_name_of(job: Job, pod_name: str) -> bool:
    """Whether a pod of that name is or was one of the job's."""
    patterns = (
        re.escape(labels.replica_pod_name(job, group.name, _PLACEHOLDER_INDEX)).replace(str(_PLACEHOLDER_INDEX), r"\d+")
        for group in job.groups
    )
    return any(re.fullmatch(pattern, pod_name) for pattern in patterns)


def _label_value(pod_labels: Mapping[str, str], label: str, master_label: str) -> str:
    return pod_labels.get(label) or pod_labels.get(master_label, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One event: something that somebody told about a job or one of its pods."""

    at: datetime | None
    is_warning: bool
    reason: str
    involved_object: str
    """`AITrainingJob bert`, `Pod bert-worker-0`."""
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContext:
    """What the cluster holds about one job."""

    pods: Sequence[Pod] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    events: Sequence[JobEvent] = ()
    """The latest last."""
    all_pods: Sequence[PodView] = ()
    """All pods of the cluster, if one of the job's waits for room and they may be seen."""
    plans: Sequence[ScalePlan] = ()
    """What its master, or somebody by hand, asked of its members; the latest last."""

    def observed_pods(self, job: Job) -> tuple[ObservedPod, ...]:
        """Its pods, the way decisions see them."""
        return observe(job, partition_pods(job, self.pods)).pods

    def match_replicas(self, job: Job, now: datetime) -> tuple[Replica, ...]:
        """Every place of the job, and who is there."""
        state = job.state or EngineState(phase=JobPhase.PENDING, started_at=job.created_at)
        seen = observe(job, partition_pods(job, self.pods))
        return match_pods(with_applied_sizes(job, state), seen, state, now).all

    def node_problems(self, node_names: Sequence[str]) -> dict[str, str]:
        """What is wrong with these nodes, as far as nodes may be seen."""
        if not self.nodes:
            return {}
        found = {name: self._node_problem(name) for name in node_names}
        return {name: what for name, what in found.items() if what}

    def _node_problem(self, node_name: str) -> str:
        node = self.nodes.get(node_name)
        if node is None:
            return "is gone"
        return ", ".join(ill.description for ill in node_problems(node))


async def load_cluster_context(client: KubeClient, job_object: JobObject) -> ClusterContext:
    """What there is to see; what one may not see is left out."""
    pods = await list_job_pods(client, job_object)
    return ClusterContext(
        pods=pods,
        nodes=await _list_nodes(client),
        events=await list_job_events(client, job_object),
        all_pods=await _list_all_pods(client) if any(map(_is_unschedulable, pods)) else (),
        plans=await list_plans(client, job_object),
    )


def _is_unschedulable(pod: Pod) -> bool:
    return any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)


async def _list_all_pods(client: KubeClient) -> Sequence[PodView]:
    try:
        return (await client.list(PODS, decode_as=PodView)).items
    except Forbidden:
        return ()


async def list_job_pods(client: KubeClient, job_object: JobObject) -> list[Pod]:
    """The pods of a job, by name."""
    listing = await client.list(PODS, job_object.key.namespace, labels=pod_selector(job_object), decode_as=Pod)
    mine = [pod for pod in listing.items if any(each.uid == job_object.uid for each in pod.metadata.owner_references)]
    return sorted(mine, key=lambda pod: natural_sort_key(pod.metadata.name))


def natural_sort_key(name: str) -> list[int | str]:
    """A key by which `worker-10` comes after `worker-9`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


async def _list_nodes(client: KubeClient) -> dict[str, Node]:
    try:
        listing = await client.list(NODES, decode_as=Node)
    except Forbidden:
        return {}
    return {node.metadata.name: node for node in listing.items}


async def list_job_events(client: KubeClient, job_object: JobObject) -> list[JobEvent]:
    """What was told about a job and its pods, also those that are gone; the latest last."""
    listing = await client.list(EVENTS, job_object.key.namespace)
    mine = [_parse_event(raw) for raw in listing.items if is_event_about(raw, job_object)]
    return sorted(mine, key=lambda told: told.at.timestamp() if told.at else 0.0)


def is_event_about(event: Mapping[str, Any], job_object: JobObject) -> bool:
    """Whether an event tells of a job or one of its members."""
    about = event.get("involvedObject") or {}
    kind, name = about.get("kind"), str(about.get("name", ""))
    if kind == job_object.frontend.kind and name == job_object.key.name:
        return str(about.get("uid", job_object.uid)) == job_object.uid  # a namesake of old is somebody else
    if kind != "Pod" or job_object.job is None:
        return False
    at = _event_time(event)
    return is_pod_name_of(job_object.job, name) and (
        at is None or job_object.created_at is None or at >= job_object.created_at
    )


def _parse_event(event: Mapping[str, Any]) -> JobEvent:
    about = event.get("involvedObject") or {}
    return JobEvent(
        at=_event_time(event),
        is_warning=event.get("type") == "Warning",
        reason=str(event.get("reason") or ""),
        involved_object=f"{about.get('kind', '')} {about.get('name', '')}",
        message=" ".join(str(event.get("message") or "").split()),
        count=int((event.get("series") or {}).get("count") or event.get("count") or 1),
    )


def _event_time(event: Mapping[str, Any]) -> datetime | None:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    text = next((str(each) for each in times if each), event.get("metadata", {}).get("creationTimestamp"))
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")) if text else None
