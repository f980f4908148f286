"""Render the status of a PaddleJob of paddlepaddle.org, and adopt the status that another operator wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.types import PaddleJobStatus, PaddleRoleStatus
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status.engine_state import (
    STATE_FIELD,
    dump_state,
    external_message,
    parse_time,
    to_json_data,
    truncate_to_seconds,
)
from pliant.frontends.status.results import decided_at, decided_phase, format_ready_replicas, root_cause_status
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.state import EngineState, JobPhase, ReplicaCounts

CREATING, RUNNING, SCALING, SUSPENDED = "creating", "running", "scaling", "suspended"
SUCCEEDED, FAILED, STARTING = "succeeded", "failed", "starting"
_PHASE_NAMES = {
    JobPhase.PENDING: CREATING,
    JobPhase.CREATING: CREATING,
    JobPhase.RUNNING: RUNNING,
    JobPhase.RESTARTING: RUNNING,
    JobPhase.SUSPENDED: SUSPENDED,
    JobPhase.SUCCEED: SUCCEEDED,
}
_EXTERNAL_FINAL_PHASES = {
    "succeeded": JobPhase.SUCCEED,
    "succeed": JobPhase.SUCCEED,
    "failed": JobPhase.FAILED,
    "timeout": JobPhase.TIMEOUT,
}
"""The final phases of all operators that this kind has had, in lower case."""
_RESIZED_EVENT, _TRANSITION_EVENTS = "Resized", ("Resized", str(JobPhase.RUNNING), str(JobPhase.RESTARTING))


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    state, counts = status.state, status.replica_counts
    trainers = counts.get(job.scalable_group, ReplicaCounts())
    rendered = PaddleJobStatus(
        phase=SCALING if _is_scaling(status) else _PHASE_NAMES.get(decided_phase(state), FAILED),
        reason="; ".join(filter(None, [render(state.message), *job.warnings])),
        ready=format_ready_replicas(counts),
        replicas=trainers.pending + trainers.scheduled + trainers.active + trainers.restarting,
        selector=f"paddle-job={job.key.name}",
        restarts=state.restart_count,
        replica_statuses=tuple(_role_status(name, each) for name, each in counts.items()),
        scaling=scaling_status(job, state),
        root_cause=root_cause_status(state),
        start_time=truncate_to_seconds(state.started_at),
        running_time=truncate_to_seconds(state.first_running_at),
        completion_time=truncate_to_seconds(decided_at(state)),
        last_reconcile_time=truncate_to_seconds(state.status_written_at or state.started_at),
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(rendered))


def add_validation_error(
    problem: InvalidSpec, previous: Mapping[str, Any], now: datetime, observed_generation: int = 0
) -> dict[str, Any]:
    """Return the previous status with the validation error; unchanged if it reports this error already."""
    if previous.get("invalid") == str(problem):
        return dict(previous)
    # An active job keeps its phase; a job that never started has failed.
    phase = previous.get("phase") if previous.get(STATE_FIELD) else FAILED
    changes = {
        "phase": phase,
        "reason": str(problem),
        "invalid": str(problem),
        "lastReconcileTime": to_json_data(truncate_to_seconds(now)),
    }
    return {**previous, **{name: value for name, value in changes.items() if value is not None}}


def has_validation_error(status: Mapping[str, Any]) -> bool:
    return bool(status.get("invalid"))


def adopt_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """Return the engine state of a job that finished under another operator; None for all other jobs."""
    if has_validation_error(status):
        return None
    phase_name = status.get("phase") or status.get("state")
    phase = _EXTERNAL_FINAL_PHASES.get(phase_name.lower()) if isinstance(phase_name, str) else None
    if phase is None:
        return None
    reason = status.get("reason") or status.get("message")
    return EngineState(
        phase=phase,
        message=external_message(reason if isinstance(reason, str) else ""),
        started_at=parse_time(status.get("startTime")) or created_at,
        ended_at=parse_time(status.get("completionTime")) or created_at,
    )


def _is_scaling(status: JobStatusUpdate) -> bool:
    """Return whether the latest transition was a resize that is not complete yet."""
    state = status.state
    if state.outcome or state.phase not in (JobPhase.RUNNING, JobPhase.RESTARTING):
        return False
    latest = next((entry.reason for entry in reversed(state.timeline) if entry.reason in _TRANSITION_EVENTS), "")
    return latest == _RESIZED_EVENT and any(
        each.size != state.group(name).applied_size or each.active + each.succeeded + each.failed < each.size
        for name, each in status.replica_counts.items()
    )


def _role_status(role_name: str, counts: ReplicaCounts) -> PaddleRoleStatus:
    count_by_state = {
        STARTING: counts.pending + counts.scheduled + counts.restarting,
        RUNNING: counts.active,
        SUCCEEDED: counts.succeeded,
        FAILED: counts.failed,
    }
    states = {state: number for state, number in count_by_state.items() if number}
    # The state of the role is the most important state of its replicas.
    state = next((each for each in (FAILED, STARTING, RUNNING, SUCCEEDED) if each in states), "")
    return PaddleRoleStatus(training_resource_type=role_name.upper(), state=state, resource_states=states)
