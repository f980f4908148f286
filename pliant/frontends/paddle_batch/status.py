"""The status of a PaddleJob of batch.paddlepaddle.org in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, overload

import msgspec

from pliant.frontends.paddle_batch.types import (
    HETER,
    PS,
    ROLES,
    WORKER,
    BatchPaddleJobStatus,
    BatchPaddleRoleStatus,
    PodReference,
)
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status.conditions import PhaseCondition, read_conditions, with_current_condition
from pliant.frontends.status.engine_state import dump_state, to_json_data
from pliant.frontends.status.results import failure_status
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.labels import JOB_NAME_LABEL, REPLICA_NAME_LABEL
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, JobPhase, ReplicaCounts, TimelineEntry

COMPLETED, FAILED = "Completed", "Failed"
MAX_POD_REFERENCES = 200
"""Pods of a role that are named: an object holds about a megabyte."""

_PHASE_NAMES = {
    JobPhase.PENDING: "Pending",
    JobPhase.CREATING: "Starting",
    JobPhase.RUNNING: "Running",
    JobPhase.RESTARTING: "Restarting",
    JobPhase.SUSPENDED: "Suspended",
    JobPhase.SUCCEED: COMPLETED,
}
_END_REASONS = {JobPhase.TIMEOUT: "Timeout", JobPhase.PREEMPTED: "Preempted", JobPhase.NODE_FAIL: "NodeFail"}


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state = status.state
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.outcome.phase if state.outcome else state.phase
    word = _PHASE_NAMES.get(phase, FAILED)
    at = _truncate_to_seconds(state.status_written_at or state.started_at)
    reason = _END_REASONS.get(phase, f"PaddleJob{word}")
    present = PhaseCondition(type=word, status="True", reason=reason, message=state.message)
    roles = {role: _role_status(role, status, previous, job) for role in ROLES if job.group(role)}
    words = BatchPaddleJobStatus(
        phase=word,
        mode=_job_mode(job, state),
        ps=roles.get(PS),
        worker=roles.get(WORKER),
        heter=roles.get(HETER),
        start_time=_truncate_to_seconds(state.first_running_at),
        completion_time=_truncate_to_seconds(state.outcome.at if state.outcome else state.ended_at),
        reason=reason,
        message=state.message,
        restarts=state.restart_count,
        conditions=with_current_condition(read_conditions(previous), present, at),
        first_cause=failure_status(state.root_cause) if state.root_cause else None,
        scaling=scaling_status(job, state),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(words))


def state_from_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so, what runs goes on."""
    told = {key: status[key] for key in ("phase", "startTime", "completionTime") if status.get(key)}
    try:
        words = msgspec.convert(told, BatchPaddleJobStatus)
    except msgspec.ValidationError:
        return None  # not words of ours: nothing to inherit
    if words.phase in (COMPLETED, FAILED):
        phase = JobPhase.SUCCEED if words.phase == COMPLETED else JobPhase.FAILED
        start = words.start_time or created_at
        end = words.completion_time or start
        return EngineState(phase=phase, message="ended under another operator", started_at=start, ended_at=end)
    if words.start_time is None:
        return None
    begun = TimelineEntry(at=words.start_time, reason=str(JobPhase.PENDING), message="begun under another operator")
    return EngineState(phase=JobPhase.PENDING, started_at=words.start_time, timeline=(begun,))


def _job_mode(job: Job, state: EngineState) -> str:
    """PS with servers; a worker that may get company is not single."""
    if job.group(PS):
        return "PS"
    workers = job.group(WORKER)
    if workers is None:
        return "Single"
    size = state.group(WORKER).applied_size
    largest = max(workers.size if size is None else size, workers.max_size or 0)
    return "Collective" if largest > 1 else "Single"


def _role_status(role: str, status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> BatchPaddleRoleStatus:
    counts = status.replica_counts.get(role, ReplicaCounts())
    return BatchPaddleRoleStatus(
        pending=counts.pending,
        starting=counts.scheduled + counts.restarting,
        running=counts.active,
        failed=counts.failed,
        succeeded=counts.succeeded,
        refs=_pod_references(role, status.observed_pods, previous, job),
        replicas=counts.pending + counts.scheduled + counts.active + counts.restarting,
        selector=f"{JOB_NAME_LABEL}={job.key.name},{REPLICA_NAME_LABEL}={role}",
    )


def _pod_references(
    role: str, pods: tuple[ObservedPod, ...] | None, previous: Mapping[str, Any], job: Job
) -> tuple[PodReference, ...]:
    """The pods of a role by index; as they were told last, if nobody looked."""
    if pods is None:
        before = previous.get(role)
        try:
            return msgspec.convert(before, BatchPaddleRoleStatus).refs
        except msgspec.ValidationError:
            return ()
    mine = sorted((pod for pod in pods if pod.group == role), key=lambda pod: pod.index)
    return tuple(
        PodReference(namespace=job.key.namespace, name=pod.name, uid=pod.uid) for pod in mine[:MAX_POD_REFERENCES]
    )


@overload
def _truncate_to_seconds(timestamp: datetime) -> datetime: ...
@overload
def _truncate_to_seconds(timestamp: None) -> None: ...
def _truncate_to_seconds(timestamp: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if timestamp is None else timestamp.replace(microsecond=0)
