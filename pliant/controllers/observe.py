"""Converts cached Kubernetes objects to what the engine observes of a job."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pliant.controllers.node_faults import NodeFaultDetector, template_devices
from pliant.kube.node_drain import is_draining, is_spot
from pliant.kube.objects import ContainerStatus, ContainerTerminated, Node, Pod, Service
from pliant.kube.pod_disruptions import find_disruption, has_disruption_reason
from pliant.model import labels
from pliant.model.job import Job, Naming
from pliant.model.messages import Message
from pliant.model.observed import NodeFault, Observed, ObservedPod, ObservedService, PodExit, PodPhase, StuckContainer
from pliant.model.scale_plans import ScalePlan
from pliant.model.state import ClockOffset
from pliant.runtime.clock import JumpAwareClock

MAX_MESSAGE_LENGTH = 300
MAX_LOG_TAIL_LENGTH = 1024  # characters kept of the end of a container's termination message
_NORMAL_WAITING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
_CREATION_FAILURE_REASONS = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull", "ImageInspectError",
    "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable",
})  # fmt: skip
_LABEL_NUMBER_PATTERN = re.compile(r"[0-9]{1,9}")
_DELETION_COST_PATTERN = re.compile(r"-?(0|[1-9][0-9]{0,9})")
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
MIN_INT32, MAX_INT32 = -(2**31), 2**31 - 1
_FINISHED_PHASES = (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class CachedJobObjects:
    pods: Iterable[Pod] = ()
    services: Iterable[Service] = ()
    create_errors: Mapping[str, Message] = field(default_factory=dict)
    external_pods: Iterable[Pod] = ()  # pods that the job's master created
    plans: tuple[ScalePlan, ...] = ()


def observe(
    job: Job,
    objects: CachedJobObjects,
    node_faults: NodeFaultDetector | None = None,
    clock: JumpAwareClock | None = None,
) -> Observed:
    main_containers = {labels.normalize_group_name(group.name): group.main_containers for group in job.groups}
    managed = ((pod, _PodIdentity.from_labels(pod, job.naming)) for pod in objects.pods)
    external = ((pod, _PodIdentity.from_external_labels(pod, job.naming)) for pod in objects.external_pods)
    pods = []
    for pod, identity in (*managed, *external):
        fault = node_faults.fault_for_pod(pod) if node_faults else None
        seen = _observe_pod(pod, identity, main_containers.get(identity.group) or frozenset(), fault)
        if node_faults is not None and (node := node_faults.node_of(pod)) is not None:
            seen = _with_node(seen, pod, node)
        pods.append(_align_deadlines(seen, clock) if clock is not None and clock.has_jumped else seen)
    return Observed(
        pods=tuple(pods),
        services={service.metadata.name: _observe_service(service) for service in objects.services},
        create_errors=objects.create_errors,
        plans=objects.plans,
        unusable_nodes=_unusable_nodes(job, node_faults) if node_faults else {},
    )


def _unusable_nodes(job: Job, node_faults: NodeFaultDetector) -> dict[str, tuple[str, ...]]:
    nodes = {group.name: node_faults.list_unusable_nodes(template_devices(group.template)) for group in job.groups}
    return {group: names for group, names in nodes.items() if names}


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodIdentity:
    group: str
    index: int
    rank: int
    is_external: bool = False

    @classmethod
    def from_labels(cls, pod: Pod, naming: Naming) -> _PodIdentity:
        pod_labels = pod.metadata.labels
        return cls(
            group=pod_labels.get(labels.REPLICA_GROUP_LABEL, ""),
            index=_parse_label_number(pod_labels.get(labels.REPLICA_INDEX_LABEL)),
            rank=_parse_label_number(pod_labels.get(naming.rank_label)),
        )

    @classmethod
    def from_external_labels(cls, pod: Pod, naming: Naming) -> _PodIdentity:
        pod_labels = pod.metadata.labels
        return cls(
            group=pod_labels.get(naming.type_label, ""),
            index=_parse_label_number(pod_labels.get(naming.id_label)),
            rank=_parse_label_number(pod_labels.get(naming.rank_label)),
            is_external=True,
        )


def _observe_pod(pod: Pod, identity: _PodIdentity, counted: frozenset[str], fault: NodeFault | None) -> ObservedPod:
    """Observe a pod by the containers that count; none given means all."""
    meta = pod.metadata
    statuses = [each for each in pod.status.container_statuses if not counted or each.name in counted]
    phase = _pod_phase(pod, statuses, len(counted) or len(pod.spec.containers))
    failed = _first_failed_container(pod, statuses)
    disruption = find_disruption(pod) if phase is PodPhase.FAILED else None
    return ObservedPod(
        name=meta.name,
        uid=meta.uid,
        group=identity.group,
        index=identity.index,
        rank=identity.rank,
        is_external=identity.is_external,
        attempt=max(_parse_label_number(meta.labels.get(labels.ATTEMPT_LABEL)), 0),
        phase=phase,
        is_terminating=meta.deletion_timestamp is not None,
        deletion_deadline=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        node=pod.spec.node_name,
        exit=_pod_exit(pod, failed) if phase is PodPhase.FAILED else None,
        start_problem=(problem := _startup_problem(pod))[0],
        start_problem_since=problem[1],
        started_at=_earliest_start(statuses),
        finished_at=failed[1].finished_at
        if failed
        else _latest_finish(statuses)
        if phase in _FINISHED_PHASES
        else None,
        node_fault=fault,
        stuck_container=_creation_failure(pod) if phase is PodPhase.SCHEDULED else None,
        disruption=_truncate_to_line(disruption.description) if disruption else "",
        is_disrupted_by_node=disruption is not None and disruption.is_by_node,
        excluded_nodes=labels.excluded_nodes(meta.annotations),
        acknowledged_checkpoint=labels.acknowledged_checkpoint(meta.annotations),
        deletion_cost=_parse_deletion_cost(meta.annotations),
        is_eviction_blocked=meta.labels.get(labels.EVICTION_LABEL) == labels.EVICTION_BLOCKED,
    )


def _with_node(seen: ObservedPod, pod: Pod, node: Node) -> ObservedPod:
    is_leaving, is_reclaimable = is_draining(node, pod.spec.tolerations), is_spot(node)
    if not is_leaving and not is_reclaimable:
        return seen
    return dataclasses.replace(seen, is_node_draining=is_leaving, is_on_spot_node=is_reclaimable)


def observe_clock(clock: JumpAwareClock) -> ClockOffset | None:
    """Return the offset of the clock by which the engine notices jumps; None if the boot of the machine is unknown."""
    return ClockOffset(boot_id=clock.boot_id, seconds=round(clock.wall_offset(), 3)) if clock.boot_id else None


def _align_deadlines(pod: ObservedPod, clock: JumpAwareClock) -> ObservedPod:
    """Move the times from which deadlines are counted by the jumps of the clock since then."""
    started, stuck = pod.started_at, pod.stuck_container
    return dataclasses.replace(
        pod,
        # A finished pod has run from one time to the other on the same clock.
        started_at=clock.to_present(started) if started is not None and pod.finished_at is None else started,
        stuck_container=dataclasses.replace(stuck, since=clock.to_present(stuck.since)) if stuck is not None else None,
    )


def _observe_service(service: Service) -> ObservedService:
    meta = service.metadata
    return ObservedService(name=meta.name, uid=meta.uid, is_terminating=meta.deletion_timestamp is not None)


def _pod_phase(pod: Pod, statuses: Sequence[ContainerStatus], container_count: int) -> PodPhase:
    """Return the phase; if only some containers count, it depends on those alone, without waiting for sidecars."""
    if has_disruption_reason(pod):
        return PodPhase.FAILED
    if pod.spec.restart_policy == "Never" and statuses:
        terminated = [status.state.terminated for status in statuses]
        if any(failed is not None and failed.exit_code != 0 for failed in terminated):
            return PodPhase.FAILED
        if len(terminated) >= container_count and all(terminated):
            return PodPhase.SUCCEEDED
    if pod.status.phase in ("Running", "Succeeded", "Failed"):
        return PodPhase(pod.status.phase)
    return PodPhase.SCHEDULED if pod.spec.node_name else PodPhase.PENDING


def _first_failed_container(pod: Pod, statuses: Sequence[ContainerStatus]) -> tuple[str, ContainerTerminated] | None:
    """Return the container that failed first, among init containers and the containers that count."""
    terminated = [
        (status.name, status.state.terminated)
        for status in (*pod.status.init_container_statuses, *statuses)
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    return min(terminated, key=lambda named: str(named[1].finished_at or "~"), default=None)


def _earliest_start(statuses: Sequence[ContainerStatus]) -> datetime | None:
    states = [status.state.running or status.state.terminated for status in statuses]
    return min((state.started_at for state in states if state is not None and state.started_at), default=None)


def _latest_finish(statuses: Sequence[ContainerStatus]) -> datetime | None:
    terminated = [status.state.terminated for status in statuses]
    return max((failed.finished_at for failed in terminated if failed is not None and failed.finished_at), default=None)


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


def _startup_problem(pod: Pod) -> tuple[str, datetime | None]:
    """Return why a pod does not start, as reported by the cluster, and since when; empty if there is no problem."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        # A volume that cannot be mounted is a message about a container that is being created.
        if waiting is not None and (waiting.reason not in _NORMAL_WAITING_REASONS or waiting.message):
            reason = "" if waiting.reason in _NORMAL_WAITING_REASONS else waiting.reason
            problem = ": ".join(filter(None, (reason, waiting.message)))
            return _truncate_to_line(problem), pod.status.start_time or pod.metadata.creation_timestamp
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            since = condition.last_transition_time or pod.metadata.creation_timestamp
            return _truncate_to_line(f"{condition.reason}: {condition.message}"), since
    return "", None


def _creation_failure(pod: Pod) -> StuckContainer | None:
    """Return the first container that the kubelet cannot create; there is no timestamp, so it counts from pod start."""
    since = pod.status.start_time or pod.metadata.creation_timestamp
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if since is not None and waiting is not None and waiting.reason in _CREATION_FAILURE_REASONS:
            return StuckContainer(container=status.name, reason=waiting.reason, since=since)
    return None


def _truncate_to_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"


def _last_text_line(text: str) -> str:
    """Return the last line with text; in a stack trace that is the error itself."""
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else text


def _last_lines(text: str) -> str:
    """Return the last lines that fit, without unprintable characters."""
    printable = "".join(char for char in text.strip() if char.isprintable() or char in "\n\t")
    if len(printable) <= MAX_LOG_TAIL_LENGTH:
        return printable
    tail = printable[-MAX_LOG_TAIL_LENGTH:]
    return tail.partition("\n")[2] or tail


def _parse_deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return the deletion cost of a pod; 0 if it is not a valid one, as in Kubernetes."""
    text = annotations.get(DELETION_COST_ANNOTATION, "")
    if not _DELETION_COST_PATTERN.fullmatch(text):
        return 0
    cost = int(text)
    return cost if MIN_INT32 <= cost <= MAX_INT32 else 0


def _parse_label_number(text: str | None) -> int:
    """Return the number in a label, or -1 if it is missing or invalid: users can write any label."""
    return int(text) if text and _LABEL_NUMBER_PATTERN.fullmatch(text) else -1
