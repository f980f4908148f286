"""The status of an ElasticJob in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.types import (
    MASTER,
    WORKER,
    ElasticJobCondition,
    ElasticJobInnerStatus,
    ElasticJobStatus,
    ElasticReplicaStatus,
)
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status.engine_state import dump_state, to_json_data
from pliant.frontends.status.results import failure_status
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.labels import JOB_NAME_LABEL, REPLICA_NAME_LABEL, normalize_group_name
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, JobPhase, ReplicaCounts, TimelineEntry

CREATED, PENDING, RUNNING, RESTARTING = "Created", "Pending", "Running", "Restarting"
SCALING, SUSPENDED, SUCCEEDED, FAILED, INVALID = "Scaling", "Suspended", "Succeeded", "Failed", "Invalid"
_FINAL_CONDITIONS = {
    JobPhase.SUCCEED: SUCCEEDED,
    JobPhase.TIMEOUT: FAILED,
    JobPhase.PREEMPTED: FAILED,
    JobPhase.NODE_FAIL: FAILED,
}
_END_REASONS = {JobPhase.TIMEOUT: "Timeout", JobPhase.PREEMPTED: "Preempted", JobPhase.NODE_FAIL: "NodeFail"}
_PERMANENT_CONDITIONS = (CREATED,)
"""Conditions that stay true, whatever comes after them."""


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state, counts = status.state, status.replica_counts
    at = _truncate_to_seconds(state.status_written_at or state.started_at)
    condition = _current_condition_type(status)
    message = _status_message(state)
    ended = state.outcome.at if state.outcome else state.ended_at
    present = ElasticJobCondition(
        type=condition, status="True", reason=_condition_reason(state, condition), message=message
    )
    replicas = {name: _replica_type_status(name, each, status.observed_pods) for name, each in counts.items()}
    words = ElasticJobStatus(
        phase=RUNNING if condition == RESTARTING else condition,
        message=message,
        scale_plan=_latest_plan_name(state) or _string_or_empty(previous.get("scalePlan")),
        workers=_format_ready_workers(counts.get(WORKER), state.group(WORKER).applied_size),
        replicas=_current_size(counts.get(WORKER)),
        selector=f"{JOB_NAME_LABEL}={job.key.name},{REPLICA_NAME_LABEL}={WORKER}",
        restarts=state.restart_count,
        status=ElasticJobInnerStatus(
            conditions=_with_current_condition(_with_created_condition(_read_conditions(previous), at), present, at),
            replica_statuses=replicas,
            start_time=_truncate_to_seconds(state.started_at),
            completion_time=_truncate_to_seconds(ended) if ended else None,
            last_reconcile_time=at,
        ),
        scaling=scaling_status(job, state),
        first_cause=failure_status(state.root_cause) if state.root_cause else None,
        pliant=dump_state(state),
    )
    rendered = cast("dict[str, Any]", to_json_data(words))
    # The kind's first definition asks for this field, also where there is nothing to say.
    rendered["status"].setdefault("replicaStatuses", {})
    return rendered


def render_rejection(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, memory included, with the problem beside it; told once, it stays as it is."""
    history = _read_conditions(previous)
    if any((entry.type, entry.message) == (INVALID, str(problem)) for entry in history):
        return dict(previous)
    at = _truncate_to_seconds(now)
    complaint = ElasticJobCondition(type=INVALID, status="True", reason="InvalidSpec", message=str(problem))
    others = (entry for entry in history if entry.type != INVALID)
    dated = replace(complaint, last_update_time=at, last_transition_time=at)
    inner = {
        **_inner_status(previous),
        "conditions": to_json_data((*others, dated)),
        "lastReconcileTime": to_json_data(at),
    }
    inner.setdefault("replicaStatuses", {})
    return {**previous, "message": str(problem), "status": inner}


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    return any(entry.type == INVALID for entry in _read_conditions(status))


def state_from_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so, what runs goes on."""
    inner = _inner_status(status)
    told = {key: inner[key] for key in ("startTime", "completionTime") if inner.get(key)}
    try:
        words = msgspec.convert(told, ElasticJobInnerStatus)
    except msgspec.ValidationError:
        return None  # not words of ours: nothing to inherit
    if status.get("phase") in (SUCCEEDED, FAILED):
        phase = JobPhase.SUCCEED if status["phase"] == SUCCEEDED else JobPhase.FAILED
        start = words.start_time or created_at
        end = words.completion_time or start
        return EngineState(phase=phase, message="ended under another operator", started_at=start, ended_at=end)
    if words.start_time is None:
        return None
    begun = TimelineEntry(at=words.start_time, reason=str(JobPhase.PENDING), message="begun under another operator")
    return EngineState(phase=JobPhase.PENDING, started_at=words.start_time, timeline=(begun,))


def _current_condition_type(status: JobStatusUpdate) -> str:
    state = status.state
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.outcome.phase if state.outcome else state.phase
    if phase.is_final:
        return _FINAL_CONDITIONS.get(phase, FAILED)
    if phase is JobPhase.SUSPENDED:
        return SUSPENDED
    if phase is JobPhase.RUNNING:
        return SCALING if state.plan_executions else RUNNING
    if phase is JobPhase.RESTARTING:
        return RESTARTING
    return PENDING if any(pod.group == MASTER for pod in status.observed_pods or ()) else CREATED


def _condition_reason(state: EngineState, condition: str) -> str:
    return _END_REASONS.get(state.outcome.phase if state.outcome else state.phase, f"Job{condition}")


def _status_message(state: EngineState) -> str:
    if not state.plan_executions or state.outcome is not None or state.phase is not JobPhase.RUNNING:
        return state.message
    plans = sorted(state.plan_executions.values(), key=lambda each: (each.started_at, each.plan_name))
    return "; ".join(f"carries out {each.plan_name}" + (f" ({each.message})" if each.message else "") for each in plans)


def _latest_plan_name(state: EngineState) -> str:
    """The plan that was begun last, of those being carried out."""
    return max(((each.started_at, each.plan_name) for each in state.plan_executions.values()), default=(None, ""))[1]


def _with_created_condition(
    conditions: tuple[ElasticJobCondition, ...], at: datetime
) -> tuple[ElasticJobCondition, ...]:
    if any(entry.type == CREATED for entry in conditions):
        return conditions
    born = ElasticJobCondition(type=CREATED, status="True", reason="JobCreated", message="accepted")
    return (replace(born, last_update_time=at, last_transition_time=at), *conditions)


def _with_current_condition(
    conditions: tuple[ElasticJobCondition, ...], current: ElasticJobCondition, at: datetime
) -> tuple[ElasticJobCondition, ...]:
    """The conditions with the present one True and last, where people and programs look for it."""
    if current.type in _PERMANENT_CONDITIONS:
        return tuple(entry for entry in conditions if entry.type != INVALID)
    gone = {INVALID, current.type, {RUNNING: RESTARTING, RESTARTING: RUNNING}.get(current.type)}
    others = [_mark_false(entry, at) for entry in conditions if entry.type not in gone]
    before = next((entry for entry in conditions if entry.type == current.type), None)
    return (*others, _update_condition(before, current, at))


def _mark_false(condition: ElasticJobCondition, at: datetime) -> ElasticJobCondition:
    if condition.type in _PERMANENT_CONDITIONS or condition.status != "True":
        return condition
    return replace(condition, status="False", last_update_time=at, last_transition_time=at)


def _update_condition(
    previous: ElasticJobCondition | None, current: ElasticJobCondition, at: datetime
) -> ElasticJobCondition:
    same = ("status", "reason", "message")
    if previous is not None and all(getattr(previous, name) == getattr(current, name) for name in same):
        return previous
    since = previous.last_transition_time if previous is not None and previous.status == current.status else at
    return replace(current, last_update_time=at, last_transition_time=since)


def _replica_type_status(
    replica_type: str, counts: ReplicaCounts, pods: tuple[ObservedPod, ...] | None
) -> ElasticReplicaStatus:
    """Of those that wait, some have no pod yet."""
    made = [
        pod for pod in pods or () if pod.group == normalize_group_name(replica_type) and pod.phase is PodPhase.PENDING
    ]
    waiting = counts.pending if pods is None else min(counts.pending, len(made))
    return ElasticReplicaStatus(
        initial=counts.pending - waiting,
        pending=waiting + counts.scheduled + counts.restarting,
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )


def _format_ready_workers(counts: ReplicaCounts | None, wanted: int | None) -> str:
    """How many run, of those that are wanted; where nobody has said how many, of those that there are."""
    return f"{counts.active}/{wanted or counts.size - counts.failed}" if counts else ""


def _current_size(counts: ReplicaCounts | None) -> int | None:
    return None if counts is None else counts.pending + counts.scheduled + counts.active


def _inner_status(status: Mapping[str, Any]) -> dict[str, Any]:
    inner = status.get("status")
    return dict(inner) if isinstance(inner, Mapping) else {}


def _read_conditions(status: Mapping[str, Any]) -> tuple[ElasticJobCondition, ...]:
    entries = _inner_status(status).get("conditions")
    return tuple(filter(None, map(_decode_condition, entries))) if isinstance(entries, list) else ()


def _decode_condition(entry: Any) -> ElasticJobCondition | None:
    try:
        return msgspec.convert(entry, ElasticJobCondition)
    except msgspec.ValidationError:
        return None


def _string_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _truncate_to_seconds(timestamp: datetime) -> datetime:
    """Times in a status are whole seconds."""
    return timestamp.replace(microsecond=0)
