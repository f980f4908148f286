"""Render the status of an ElasticJob, and adopt the status that another operator wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.types import (
    MASTER_REPLICA_TYPE,
    WORKER,
    ElasticJobInnerStatus,
    ElasticJobStatus,
    ElasticReplicaStatus,
)
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status import conditions as job_conditions
from pliant.frontends.status import engine_state
from pliant.frontends.status.conditions import INVALID_CONDITION, JobCondition
from pliant.frontends.status.results import decided_at, decided_phase, root_cause_status
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.labels import group_selector, normalize_group_name
from pliant.model.messages import MessageReason, message
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, JobPhase, ReplicaCounts

CREATED, PENDING, RUNNING, RESTARTING = "Created", "Pending", "Running", "Restarting"
SCALING, SUSPENDED, SUCCEEDED, FAILED = "Scaling", "Suspended", "Succeeded", "Failed"
_END_REASONS = {JobPhase.TIMEOUT: "Timeout", JobPhase.PREEMPTED: "Preempted", JobPhase.NODE_FAIL: "NodeFail"}
_REPLACED_CONDITIONS = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    state, counts = status.state, status.replica_counts
    workers, desired = counts.get(WORKER), state.group(WORKER).applied_size
    at = engine_state.truncate_to_seconds(state.status_written_at or state.started_at)
    condition_type = _current_condition_type(status)
    text = _status_message(state)
    reason = _END_REASONS.get(decided_phase(state), f"Job{condition_type}")
    current = job_conditions.new_true_condition(condition_type, reason, text, at, state.observed_generation)
    latest_plan = max(((each.started_at, each.plan_name) for each in state.plan_executions.values()), default=None)
    previous_plan = previous.get("scalePlan")
    conditions = _with_current_condition(_read_conditions(previous), current, at)
    rendered = ElasticJobStatus(
        phase=RUNNING if condition_type == RESTARTING else condition_type,
        message=text,
        scale_plan=latest_plan[1] if latest_plan else previous_plan if isinstance(previous_plan, str) else "",
        workers=f"{workers.active}/{desired or workers.size}" if workers else "",
        replicas=workers.pending + workers.scheduled + workers.active if workers else None,
        selector=group_selector(job, WORKER),
        restarts=state.restart_count,
        conditions=conditions,
        status=ElasticJobInnerStatus(
            conditions=conditions,
            replica_statuses={
                name: _replica_type_status(name, each, status.observed_pods) for name, each in counts.items()
            },
            start_time=engine_state.truncate_to_seconds(state.started_at),
            completion_time=engine_state.truncate_to_seconds(decided_at(state)),
            last_reconcile_time=at,
        ),
        scaling=scaling_status(job, state),
        root_cause=root_cause_status(state),
        pliant=engine_state.dump_state(state),
    )
    raw = cast("dict[str, Any]", engine_state.to_json_data(rendered))
    # The original CRD requires this field, even if it is empty.
    raw["status"].setdefault("replicaStatuses", {})
    return raw


def add_validation_error(
    problem: InvalidSpec, previous: Mapping[str, Any], now: datetime, observed_generation: int = 0
) -> dict[str, Any]:
    """Return the previous status with the validation error; unchanged if it reports this error already."""
    history, at = _read_conditions(previous), engine_state.truncate_to_seconds(now)
    conditions = job_conditions.with_invalid_condition(history, problem, at, observed_generation)
    if conditions == history:
        return dict(previous)
    rendered = engine_state.to_json_data(conditions)
    inner = {
        "replicaStatuses": {},
        **_inner_status(previous),
        "conditions": rendered,
        "lastReconcileTime": engine_state.to_json_data(at),
    }
    phase = previous.get("phase") or INVALID_CONDITION
    return {**previous, "phase": phase, "message": str(problem), "conditions": rendered, "status": inner}


def has_validation_error(status: Mapping[str, Any]) -> bool:
    return any(entry.type == INVALID_CONDITION for entry in _read_conditions(status))


def adopt_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """Return the engine state of a job that another operator ran: a finished job stays so, others are Pending."""
    inner = _inner_status(status)
    times = {key: inner[key] for key in ("startTime", "completionTime") if inner.get(key)}
    try:
        external = msgspec.convert(times, ElasticJobInnerStatus)
    except msgspec.ValidationError:
        return None
    if status.get("phase") not in (SUCCEEDED, FAILED):
        return engine_state.state_of_external_job(external.start_time)
    phase = JobPhase.SUCCEED if status["phase"] == SUCCEEDED else JobPhase.FAILED
    start = external.start_time or created_at
    end = external.completion_time or start
    finished = message(MessageReason.FINISHED_BY_OTHER_OPERATOR)
    return EngineState(phase=phase, message=finished, started_at=start, ended_at=end)


def _current_condition_type(status: JobStatusUpdate) -> str:
    state, phase = status.state, decided_phase(status.state)
    if phase.is_final:
        return SUCCEEDED if phase is JobPhase.SUCCEED else FAILED
    if phase is JobPhase.SUSPENDED:
        return SUSPENDED
    if phase is JobPhase.RUNNING:
        return SCALING if state.plan_executions else RUNNING
    if phase is JobPhase.RESTARTING:
        return RESTARTING
    return PENDING if any(pod.group == MASTER_REPLICA_TYPE for pod in status.observed_pods or ()) else CREATED


def _status_message(state: EngineState) -> str:
    if not state.plan_executions or state.outcome is not None or state.phase is not JobPhase.RUNNING:
        return render(state.message)
    plans = sorted(state.plan_executions.values(), key=lambda each: (each.started_at, each.plan_name))
    executing = (
        message(MessageReason.EXECUTING_PLAN, plan=each.plan_name, message=each.message or None) for each in plans
    )
    return "; ".join(map(render, executing))


def _with_current_condition(
    conditions: tuple[JobCondition, ...], current: JobCondition, at: datetime
) -> tuple[JobCondition, ...]:
    """Return the conditions with the current one last and True. Created stays True; Invalid is removed."""
    generation = current.observed_generation
    if all(entry.type != CREATED for entry in conditions):
        accepted = render(message(MessageReason.JOB_ACCEPTED))
        conditions = (job_conditions.new_true_condition(CREATED, "JobCreated", accepted, at, generation), *conditions)
    if current.type == CREATED:
        return tuple(entry for entry in conditions if entry.type != INVALID_CONDITION)
    removed = {INVALID_CONDITION, current.type, _REPLACED_CONDITIONS.get(current.type)}
    others = [
        job_conditions.mark_false(entry, at) if entry.type != CREATED and entry.status == "True" else entry
        for entry in conditions
        if entry.type not in removed
    ]
    before = next((entry for entry in conditions if entry.type == current.type), None)
    return (*others, job_conditions.update_condition(before, current))


def _replica_type_status(
    replica_type: str, counts: ReplicaCounts, pods: tuple[ObservedPod, ...] | None
) -> ElasticReplicaStatus:
    group = normalize_group_name(replica_type)
    pending = counts.pending
    if pods is not None:
        existing = sum(pod.group == group and pod.phase is PodPhase.PENDING for pod in pods)
        pending = min(counts.pending, existing)
    return ElasticReplicaStatus(
        initial=counts.pending - pending,
        pending=pending + counts.scheduled + counts.restarting,
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )


def _inner_status(status: Mapping[str, Any]) -> dict[str, Any]:
    inner = status.get("status")
    return dict(inner) if isinstance(inner, Mapping) else {}


def _read_conditions(status: Mapping[str, Any]) -> tuple[JobCondition, ...]:
    conditions = status.get("conditions") or _inner_status(status).get("conditions")
    return tuple(engine_state.decode_valid_items(JobCondition, conditions))
