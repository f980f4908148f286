"""Builds the members of a job from its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from pliant.errors import InvalidSpec
from pliant.kube.objects import ContainerStatus, Pod
from pliant.master.control.job_spec import parse_resources
from pliant.master.model import Heartbeat, JobMember, MemberKey, MemberStatus, PodResources

LABEL_PREFIX: Final = "elasticjob.dlrover/"
JOB_LABEL, TYPE_LABEL, ID_LABEL, RANK_LABEL, RELAUNCHES_LABEL = (
    LABEL_PREFIX + name for name in ("name", "replica-type", "replica-index", "rank-index", "relaunch-count")
)
MASTER_TYPE: Final = "dlrover-master"
PORT_BY_TYPE: Final = {"ps": 2222}
DEFAULT_MEMBER_PORT: Final = 3333
_STATUS_BY_PHASE: Final = {
    "Pending": MemberStatus.PENDING,
    "Running": MemberStatus.RUNNING,
    "Succeeded": MemberStatus.SUCCEEDED,
    "Failed": MemberStatus.FAILED,
}


def members_from_pods(
    pods: Iterable[Pod], heartbeats: Mapping[MemberKey, Heartbeat], now: datetime
) -> tuple[JobMember, ...]:
    """Build the sorted members of these pods; ignore pods without the labels of a member."""
    members = (_member_from_pod(pod, heartbeats, now) for pod in pods)
    return tuple(sorted((member for member in members if member is not None), key=lambda member: member.key))


def member_key_and_rank(pod: Pod) -> tuple[MemberKey, int] | None:
    """Read key and rank from the labels of a pod; None if the pod is not a member."""
    labels = pod.metadata.labels
    id_, rank = labels.get(ID_LABEL, ""), labels.get(RANK_LABEL, labels.get(ID_LABEL, ""))
    if labels.get(TYPE_LABEL, MASTER_TYPE) == MASTER_TYPE or not id_.isdecimal() or not rank.isdecimal():
        return None
    return MemberKey(labels[TYPE_LABEL], int(id_)), int(rank)


def _member_from_pod(pod: Pod, heartbeats: Mapping[MemberKey, Heartbeat], now: datetime) -> JobMember | None:
    key_and_rank = member_key_and_rank(pod)
    if key_and_rank is None:
        return None
    key, rank = key_and_rank
    main = _main_container_status(pod)
    terminated = main.state.terminated if main else None
    started_at = main.state.running.started_at if main and main.state.running else None
    has_finished = pod.status.phase in ("Succeeded", "Failed")
    relaunches = pod.metadata.labels.get(RELAUNCHES_LABEL, "0")
    port = PORT_BY_TYPE.get(key.type, DEFAULT_MEMBER_PORT)
    return JobMember(
        key=key,
        rank=rank,
        pod_name=pod.metadata.name,
        status=_member_status(pod),
        resources=_requested_resources(pod),
        relaunches=int(relaunches) if relaunches.isdecimal() else 0,
        created_at=pod.metadata.creation_timestamp or now,
        started_at=started_at or (terminated.started_at if terminated else None) or pod.status.start_time,
        ended_at=(terminated.finished_at if terminated else None) or (now if has_finished else None),
        exit_code=terminated.exit_code if terminated else None,
        reason=_pod_reason(pod, main),
        node_name=pod.spec.node_name,
        address=f"{pod.status.pod_ip}:{port}" if pod.status.pod_ip else "",
        heartbeat=heartbeats.get(key),
    )


def _member_status(pod: Pod) -> MemberStatus:
    """Derive the status from the phase; a pod that is deleted while it runs is lost, as its member was not removed."""
    status = _STATUS_BY_PHASE.get(pod.status.phase, MemberStatus.LOST)
    if pod.metadata.deletion_timestamp is not None and status in (MemberStatus.PENDING, MemberStatus.RUNNING):
        return MemberStatus.LOST
    return status


def _main_container_status(pod: Pod) -> ContainerStatus | None:
    """Return the status of the first container, which the operator makes the main one."""
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    statuses = pod.status.container_statuses
    return next((status for status in statuses if status.name == name), statuses[0] if statuses else None)


def _requested_resources(pod: Pod) -> PodResources:
    if not pod.spec.containers:
        return PodResources()
    try:
        return parse_resources(pod.spec.containers[0].resources.limits, pod.metadata.name)
    except InvalidSpec:
        return PodResources()


def _pod_reason(pod: Pod, main: ContainerStatus | None) -> str:
    if main is not None and main.state.terminated is not None:
        return main.state.terminated.reason or pod.status.reason
    if main is not None and main.state.waiting is not None and pod.spec.node_name:
        return main.state.waiting.reason
    scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return pod.status.reason or next((each.message for each in scheduled), "")
