"""Members as their pods show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from pliant.errors import InvalidSpec
from pliant.kube.objects import ContainerStatus, Pod
from pliant.master.facts import resources
from pliant.master.model import Beat, Node, NodeKey, NodeStatus, Resources

LABEL: Final = "elasticjob.dlrover/"
JOB, TYPE, ID, RANK, RELAUNCHES = (
    LABEL + name for name in ("name", "replica-type", "replica-index", "rank-index", "relaunch-count")
)
MASTER: Final = "dlrover-master"
PORTS: Final = {"ps": 2222}
USUAL_PORT: Final = 3333
_STATUSES: Final = {
    "Pending": NodeStatus.PENDING,
    "Running": NodeStatus.RUNNING,
    "Succeeded": NodeStatus.SUCCEEDED,
    "Failed": NodeStatus.FAILED,
}


def members(pods: Iterable[Pod], beats: Mapping[NodeKey, Beat], now: datetime) -> tuple[Node, ...]:
    """Every member among these pods, in order; pods without the labels of one are somebody else's."""
    found = (_member(pod, beats, now) for pod in pods)
    return tuple(sorted((node for node in found if node is not None), key=lambda node: node.key))


def place_in(pod: Pod) -> tuple[NodeKey, int] | None:
    """Who a pod is, and at which rank; None for a pod that is no member."""
    labels = pod.metadata.labels
    number, rank = labels.get(ID, ""), labels.get(RANK, labels.get(ID, ""))
    if labels.get(TYPE, MASTER) == MASTER or not number.isdecimal() or not rank.isdecimal():
        return None
    return NodeKey(labels[TYPE], int(number)), int(rank)


def _member(pod: Pod, beats: Mapping[NodeKey, Beat], now: datetime) -> Node | None:
    place = place_in(pod)
    if place is None:
        return None
    key, rank = place
    main = _main(pod)
    ended = main.state.terminated if main else None
    started = main.state.running.started_at if main and main.state.running else None
    relaunches = pod.metadata.labels.get(RELAUNCHES, "0")
    port = PORTS.get(key.type, USUAL_PORT)
    return Node(
        key=key,
        rank=rank,
        pod=pod.metadata.name,
        status=_status(pod),
        resources=_asked(pod),
        relaunches=int(relaunches) if relaunches.isdecimal() else 0,
        created_at=pod.metadata.creation_timestamp or now,
        started_at=started or (ended.started_at if ended else None) or pod.status.start_time,
        ended_at=(ended.finished_at if ended else None) or (now if _is_over(pod) else None),
        exit_code=ended.exit_code if ended else None,
        reason=_reason(pod, main),
        host=pod.spec.node_name,
        address=f"{pod.status.pod_ip}:{port}" if pod.status.pod_ip else "",
        beat=beats.get(key),
    )


def _status(pod: Pod) -> NodeStatus:
    """By its phase; who has to leave while at work is lost, for nobody of ours would be looked at then."""
    status = _STATUSES.get(pod.status.phase, NodeStatus.LOST)
    if pod.metadata.deletion_timestamp is not None and status in (NodeStatus.PENDING, NodeStatus.RUNNING):
        return NodeStatus.LOST
    return status


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _main(pod: Pod) -> ContainerStatus | None:
    """How the container that counts fares: the operator puts it first."""
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    statuses = pod.status.container_statuses
    return next((status for status in statuses if status.name == name), statuses[0] if statuses else None)


def _asked(pod: Pod) -> Resources:
    if not pod.spec.containers:
        return Resources()
    try:
        return resources(pod.spec.containers[0].resources.limits, pod.metadata.name)
    except InvalidSpec:
        return Resources()


def _reason(pod: Pod, main: ContainerStatus | None) -> str:
    if main is not None and main.state.terminated is not None:
        return main.state.terminated.reason or pod.status.reason
    if main is not None and main.state.waiting is not None and pod.spec.node_name:
        return main.state.waiting.reason
    scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return pod.status.reason or next((each.message for each in scheduled), "")
