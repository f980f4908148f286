"""Render the status of a kubeflow.org job, and adopt the status that another operator wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.kubeflow.types import KubeflowJobStatus, KubeflowReplicaStatus
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status import conditions as job_conditions
from pliant.frontends.status import engine_state
from pliant.frontends.status.conditions import INVALID_CONDITION, JobCondition
from pliant.frontends.status.results import decided_at, decided_phase
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.labels import normalize_group_name
from pliant.model.messages import MessageReason, message
from pliant.model.state import EngineState, JobPhase, ReplicaCounts

CREATED, RUNNING, RESTARTING, SUSPENDED = "Created", "Running", "Restarting", "Suspended"
SUCCEEDED, FAILED = "Succeeded", "Failed"

_CONDITION_BY_PHASE = {
    JobPhase.PENDING: CREATED,
    JobPhase.CREATING: CREATED,
    JobPhase.RUNNING: RUNNING,
    JobPhase.RESTARTING: RESTARTING,
    JobPhase.SUSPENDED: SUSPENDED,
    JobPhase.SUCCEED: SUCCEEDED,
}
_END_REASONS = {JobPhase.TIMEOUT: "DeadlineExceeded", JobPhase.PREEMPTED: "Preempted", JobPhase.NODE_FAIL: "NodeFail"}
_EXCLUSIVE_CONDITIONS = (RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED)
"""At most one of these conditions is True."""
_REPLACED_CONDITIONS = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    state, kind = status.state, job.owner.kind
    phase = decided_phase(state)
    at = engine_state.truncate_to_seconds(state.status_written_at or state.started_at)
    condition_type = _CONDITION_BY_PHASE.get(phase, FAILED)
    reason = _END_REASONS.get(phase, f"{kind}{condition_type}")
    created = job_conditions.new_true_condition(
        CREATED, f"{kind}{CREATED}", render(message(MessageReason.JOB_ACCEPTED)), at, state.observed_generation
    )
    conditions = _read_conditions(previous) or (created,)
    current = job_conditions.new_true_condition(
        condition_type, reason, render(state.message), at, state.observed_generation
    )
    rendered = KubeflowJobStatus(
        conditions=_with_current_condition(conditions, current, kind, at),
        replica_statuses={
            name: _replica_status(job, name, each, is_ended=phase.is_final)
            for name, each in status.replica_counts.items()
        },
        start_time=engine_state.truncate_to_seconds(state.resumed_at or state.started_at),
        completion_time=engine_state.truncate_to_seconds(decided_at(state)),
        last_reconcile_time=at,
        scaling=scaling_status(job, state),
        pliant=engine_state.dump_state(state),
    )
    return cast("dict[str, Any]", engine_state.to_json_data(rendered))


def add_validation_error(
    problem: InvalidSpec, previous: Mapping[str, Any], now: datetime, observed_generation: int = 0
) -> dict[str, Any]:
    """Return the previous status with the validation error; unchanged if it reports this error already."""
    history, at = _read_conditions(previous), engine_state.truncate_to_seconds(now)
    conditions = job_conditions.with_invalid_condition(history, problem, at, observed_generation)
    if conditions == history:
        return dict(previous)
    return {
        **previous,
        "conditions": engine_state.to_json_data(conditions),
        "lastReconcileTime": engine_state.to_json_data(at),
    }


def has_validation_error(status: Mapping[str, Any]) -> bool:
    return any(entry.type == INVALID_CONDITION for entry in _read_conditions(status))


def adopt_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """Return the engine state of a job that another operator ran: a finished job stays so, others are Pending."""
    times = {key: status[key] for key in ("startTime", "completionTime") if status.get(key)}
    try:
        external = msgspec.convert(times, KubeflowJobStatus)
    except msgspec.ValidationError:
        return None
    for condition in _read_conditions(status):
        if condition.type in (SUCCEEDED, FAILED) and condition.status == "True":
            phase = JobPhase.SUCCEED if condition.type == SUCCEEDED else JobPhase.FAILED
            start = external.start_time or created_at
            end = external.completion_time or condition.last_transition_time or start
            reported = engine_state.external_message(condition.message)
            return EngineState(phase=phase, message=reported, started_at=start, ended_at=end)
    return engine_state.state_of_external_job(external.start_time)


def _with_current_condition(
    conditions: tuple[JobCondition, ...], current: JobCondition, kind: str, at: datetime
) -> tuple[JobCondition, ...]:
    """Return the conditions with the current one last and True.

    Conditions that exclude it become False, Running and Restarting replace each other, and Invalid is removed.
    """
    removed = {INVALID_CONDITION, current.type, _REPLACED_CONDITIONS.get(current.type, "")}
    before = next((entry for entry in conditions if entry.type == current.type), None)
    others = [_exclude_condition(entry, current, kind, at) for entry in conditions if entry.type not in removed]
    return (*others, job_conditions.update_condition(before, current))


def _exclude_condition(condition: JobCondition, current: JobCondition, kind: str, at: datetime) -> JobCondition:
    if condition.type not in _EXCLUSIVE_CONDITIONS or condition.status != "True":
        return condition
    excluded = job_conditions.mark_false(condition, at)
    if condition.type != SUSPENDED or current.type == SUSPENDED:
        return excluded
    resumed = message(MessageReason.RESUMED)
    return replace(excluded, reason=f"{kind}{resumed.reason}", message=render(resumed))


def _read_conditions(status: Mapping[str, Any]) -> tuple[JobCondition, ...]:
    return tuple(engine_state.decode_valid_items(JobCondition, status.get("conditions")))


def _replica_status(job: Job, group_name: str, counts: ReplicaCounts, *, is_ended: bool) -> KubeflowReplicaStatus:
    """Return the status of a group; when the job has ended, no replica is active, even if its pod is kept."""
    return KubeflowReplicaStatus(
        active=0 if is_ended else counts.pending + counts.scheduled + counts.active + counts.restarting,
        succeeded=counts.succeeded,
        failed=counts.failed,
        selector=f"training.kubeflow.org/job-name={job.key.name},"
        f"training.kubeflow.org/replica-type={normalize_group_name(group_name)}",
    )
