"""Render the status of a PaddleJob of batch.paddlepaddle.org, and adopt the status that another operator wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

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
from pliant.frontends.status.conditions import new_current_phase, read_phase_conditions, with_current_phase
from pliant.frontends.status.engine_state import dump_state, state_of_external_job, to_json_data, truncate_to_seconds
from pliant.frontends.status.results import decided_at, decided_phase, root_cause_status
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.labels import group_selector
from pliant.model.messages import MessageReason, message
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, JobPhase, ReplicaCounts

COMPLETED, FAILED = "Completed", "Failed"
MAX_POD_REFERENCES = 200
"""Pod references per role: an object may have a size of about 1 MiB."""

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
    state = status.state
    phase = decided_phase(state)
    phase_name = _PHASE_NAMES.get(phase, FAILED)
    at = truncate_to_seconds(state.status_written_at or state.started_at)
    reason = _END_REASONS.get(phase, f"PaddleJob{phase_name}")
    current = new_current_phase(phase_name, reason, state)
    roles = {role: _role_status(role, status, previous, job) for role in ROLES if job.group(role)}
    rendered = BatchPaddleJobStatus(
        phase=phase_name,
        mode=_job_mode(job, state),
        ps=roles.get(PS),
        worker=roles.get(WORKER),
        heter=roles.get(HETER),
        start_time=truncate_to_seconds(state.first_running_at),
        completion_time=truncate_to_seconds(decided_at(state)),
        reason=reason,
        message=render(state.message),
        restarts=state.restart_count,
        conditions=with_current_phase(read_phase_conditions(previous), current, at),
        root_cause=root_cause_status(state),
        scaling=scaling_status(job, state),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(rendered))


def adopt_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """Return the engine state of a job that another operator ran: a finished job stays so, others are Pending."""
    present = {key: status[key] for key in ("phase", "startTime", "completionTime") if status.get(key)}
    try:
        external = msgspec.convert(present, BatchPaddleJobStatus)
    except msgspec.ValidationError:
        return None
    if external.phase not in (COMPLETED, FAILED):
        return state_of_external_job(external.start_time)
    phase = JobPhase.SUCCEED if external.phase == COMPLETED else JobPhase.FAILED
    start = external.start_time or created_at
    end = external.completion_time or start
    finished = message(MessageReason.FINISHED_BY_OTHER_OPERATOR)
    return EngineState(phase=phase, message=finished, started_at=start, ended_at=end)


def _job_mode(job: Job, state: EngineState) -> str:
    """Return PS with parameter servers, Collective if the job has or may get several workers, else Single."""
    if job.group(PS):
        return "PS"
    workers = job.group(WORKER)
    if workers is None:
        return "Single"
    size = state.group(WORKER).applied_size
    max_size = max(workers.size if size is None else size, workers.max_size or 0)
    return "Collective" if max_size > 1 else "Single"


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
        selector=group_selector(job, role),
    )


def _pod_references(
    role: str, pods: tuple[ObservedPod, ...] | None, previous: Mapping[str, Any], job: Job
) -> tuple[PodReference, ...]:
    """Return references to the pods of a role by index; those of the previous status if pods were not observed."""
    if pods is None:
        try:
            return msgspec.convert(previous.get(role), BatchPaddleRoleStatus).refs
        except msgspec.ValidationError:
            return ()
    role_pods = sorted((pod for pod in pods if pod.group == role), key=lambda pod: pod.index)
    namespace = job.key.namespace
    return tuple(
        PodReference(namespace=namespace, name=pod.name, uid=pod.uid) for pod in role_pods[:MAX_POD_REFERENCES]
    )
