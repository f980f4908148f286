"""Cached Kubernetes objects to the slice of the cluster that decisions read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pliant.controllers.node_faults import NodeFaultDetector
from pliant.kube.objects import ContainerStatus, ContainerTerminated, Pod, Service
from pliant.model import labels
from pliant.model.job import Job, Naming
from pliant.model.observed import (
    NodeFault,
    Observed,
    ObservedPod,
    ObservedService,
    PodExit,
    PodPhase,
    ScaleRecommendation,
    StuckContainer,
)
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import ScalePlan

MAX_MESSAGE_LENGTH = 300
MAX_LOG_TAIL_LENGTH = 1024
"""Characters that are kept of what a container said last."""
_NORMAL_WAITING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
_CREATION_FAILURE_REASONS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
    }
)
_LABEL_NUMBER_PATTERN = re.compile(r"[0-9]{1,9}")
_FINISHED_PHASES = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_DISRUPTION_MESSAGES = {
    "Evicted": "was evicted",
    "Preempting": "was preempted on its node",
    "NodeShutdown": "was ended by the shutdown of its node",
    "Terminated": "was ended by the shutdown of its node",
    "Shutdown": "was ended by the shutdown of its node",
}
"""Reasons of failed pods whose programs are not to blame."""


@dataclass(frozen=True, slots=True)
class CachedJobObjects:
    """What the caches hold of one job."""

    pods: Iterable[Pod] = ()
    services: Iterable[Service] = ()
    create_errors: Mapping[str, str] = field(default_factory=dict)
    recommendations: Mapping[str, ScaleRecommendation] = field(default_factory=dict)
    external_pods: Iterable[Pod] = ()
    """Pods that the job's master made."""
    plans: tuple[ScalePlan, ...] = ()


def observe(
    job: Job,
    objects: CachedJobObjects,
    node_faults: NodeFaultDetector | None = None,
    config: OperatorConfig | None = None,
) -> Observed:
    """What is seen of one job: its pods and services, and what the server would not let us create."""
    counted = {labels.normalize_group_name(group.name): group.main_containers for group in job.groups}
    made = ((pod, _PodIdentity.from_labels(pod, job.naming)) for pod in objects.pods)
    foreign = ((pod, _PodIdentity.from_external_labels(pod, job.naming)) for pod in objects.external_pods)
    return Observed(
        pods=tuple(
            _observe_pod(
                pod,
                place,
                counted.get(place.group) or frozenset(),
                node_faults.fault_for_pod(pod) if node_faults else None,
            )
            for pod, place in (*made, *foreign)
        ),
        services={service.metadata.name: _observe_service(service) for service in objects.services},
        create_errors=objects.create_errors,
        recommendations=objects.recommendations,
        config=config or OperatorConfig(),
        plans=objects.plans,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodIdentity:
    """What the labels of a pod say of its place."""

    group: str
    index: int
    rank: int
    is_external: bool = False

    @classmethod
    def from_labels(cls, pod: Pod, naming: Naming) -> _PodIdentity:
        its = pod.metadata.labels
        return cls(
            group=its.get(labels.REPLICA_NAME_LABEL, ""),
            index=_parse_label_number(its.get(labels.REPLICA_INDEX_LABEL)),
            rank=_parse_label_number(its.get(naming.rank_label)),
        )

    @classmethod
    def from_external_labels(cls, pod: Pod, naming: Naming) -> _PodIdentity:
        its = pod.metadata.labels
        return cls(
            group=its.get(naming.type_label, ""),
            index=_parse_label_number(its.get(naming.id_label)),
            rank=_parse_label_number(its.get(naming.rank_label)),
            is_external=True,
        )


def _observe_pod(
    pod: Pod, identity: _PodIdentity, counted_containers: frozenset[str], fault: NodeFault | None
) -> ObservedPod:
    meta = pod.metadata
    statuses = [
        status
        for status in pod.status.container_statuses
        if not counted_containers or status.name in counted_containers
    ]
    phase = _pod_phase(pod, statuses, len(counted_containers) or len(pod.spec.containers))
    end = _first_failed_container(pod, statuses)
    return ObservedPod(
        name=meta.name,
        uid=meta.uid,
        group=identity.group,
        index=identity.index,
        rank=identity.rank,
        is_external=identity.is_external,
        attempt=max(_parse_label_number(meta.labels.get(labels.RESTART_COUNT_LABEL)), 0),
        phase=phase,
        is_terminating=meta.deletion_timestamp is not None,
        deletion_deadline=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        node=pod.spec.node_name,
        exit=_pod_exit(pod, end) if phase is PodPhase.FAILED else None,
        problem=_startup_problem(pod),
        started_at=_earliest_start(statuses),
        finished_at=end[1].finished_at if end else _latest_finish(statuses) if phase in _FINISHED_PHASES else None,
        node_fault=fault,
        stuck_container=_creation_failure(pod) if phase is PodPhase.SCHEDULED else None,
        disruption=_disruption_message(pod) if phase is PodPhase.FAILED else "",
    )


def _observe_service(service: Service) -> ObservedService:
    meta = service.metadata
    return ObservedService(name=meta.name, uid=meta.uid, is_terminating=meta.deletion_timestamp is not None)


def _pod_phase(pod: Pod, statuses: Sequence[ContainerStatus], container_count: int) -> PodPhase:
    """Judge by the containers that count as soon as their end is final, without waiting for side-cars."""
    if pod.spec.restart_policy == "Never" and statuses:
        ends = [status.state.terminated for status in statuses]
        if any(end is not None and end.exit_code != 0 for end in ends):
            return PodPhase.FAILED
        if len(ends) >= container_count and all(ends):
            return PodPhase.SUCCEEDED
    if pod.status.phase in ("Running", "Succeeded", "Failed"):
        return PodPhase(pod.status.phase)
    return PodPhase.SCHEDULED if pod.spec.node_name else PodPhase.PENDING


def _first_failed_container(pod: Pod, statuses: Sequence[ContainerStatus]) -> tuple[str, ContainerTerminated] | None:
    """The earliest bad end among the containers that count; init containers always count."""
    ends = [
        (status.name, status.state.terminated)
        for status in (*pod.status.init_container_statuses, *statuses)
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    return min(ends, key=lambda named: str(named[1].finished_at or "~"), default=None)


def _earliest_start(statuses: Sequence[ContainerStatus]) -> datetime | None:
    """When the first of the containers began its present run."""
    states = [status.state.running or status.state.terminated for status in statuses]
    return min((state.started_at for state in states if state is not None and state.started_at), default=None)


def _latest_finish(statuses: Sequence[ContainerStatus]) -> datetime | None:
    """When the last of the containers ended."""
    ends = [status.state.terminated for status in statuses]
    return max((end.finished_at for end in ends if end is not None and end.finished_at), default=None)


def _pod_exit(pod: Pod, failed_container: tuple[str, ContainerTerminated] | None) -> PodExit:
    if failed_container is None:
        return PodExit(reason=pod.status.reason, message=_truncate_to_line(pod.status.message))
    container, terminated = failed_container
    return PodExit(
        code=terminated.exit_code,
        container=container,
        reason=terminated.reason,
        message=_truncate_to_line(_last_text_line(terminated.message)),
        last_log_lines=_last_lines(terminated.message),
    )


def _startup_problem(pod: Pod) -> str:
    """Why a pod does not come up, in the cluster's own words; empty while all is in order."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _NORMAL_WAITING_REASONS:
            return _truncate_to_line(f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _truncate_to_line(f"{condition.reason}: {condition.message}")
    return ""


def _creation_failure(pod: Pod) -> StuckContainer | None:
    """The first container that the node cannot create; nothing says since when, so since the node took the pod."""
    since = pod.status.start_time or pod.metadata.creation_timestamp
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if since is not None and waiting is not None and waiting.reason in _CREATION_FAILURE_REASONS:
            return StuckContainer(container=status.name, reason=waiting.reason, since=since)
    return None


def _disruption_message(pod: Pod) -> str:
    """How the cluster ended a pod for reasons of its own; empty if it did not."""
    said = _DISRUPTION_MESSAGES.get(pod.status.reason, "")
    if not said and any(each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions):
        said = "was taken away by the cluster"
    return _truncate_to_line(f"{said}: {pod.status.message}" if said and pod.status.message else said)


def _truncate_to_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"


def _last_text_line(text: str) -> str:
    """The last line that says something: of a stack trace, the error itself."""
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else text


def _last_lines(text: str) -> str:
    """The last lines, whole ones as far as possible; what cannot be shown is left out."""
    kept = "".join(letter for letter in text.strip() if letter.isprintable() or letter in "\n\t")
    if len(kept) <= MAX_LOG_TAIL_LENGTH:
        return kept
    cut = kept[-MAX_LOG_TAIL_LENGTH:]
    return cut.partition("\n")[2] or cut


def _parse_label_number(text: str | None) -> int:
    """The number in a label; -1 if it is none, or one that nobody counts up to: anybody may write labels."""
    return int(text) if text and _LABEL_NUMBER_PATTERN.fullmatch(text) else -1
