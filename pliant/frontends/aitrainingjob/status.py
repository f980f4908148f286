"""The status of an AITrainingJob in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, overload

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.types import AITrainingJobStatus, AITrainingReplicaStatus
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status.conditions import PhaseCondition, read_conditions, with_current_condition
from pliant.frontends.status.engine_state import dump_state, to_json_data
from pliant.frontends.status.results import failure_status, phase_durations, restarts_by_cause
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.labels import JOB_NAME_LABEL, REPLICA_NAME_LABEL
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaCounts, RestartCause

INVALID = "Invalid"
"""The condition of a job that cannot be understood."""


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state = status.state
    counts = status.replica_counts
    at = _truncate_to_seconds(state.status_written_at or state.started_at)
    reason = f"TrainingJob{state.phase}"
    present = PhaseCondition(type=state.phase, status="True", reason=reason, message=state.message)
    restarts = {name: state.group(name).charged_restarts for name in {**counts, **state.groups}}
    words = AITrainingJobStatus(
        phase=state.phase,
        reason=reason,
        message=state.message,
        ready=f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}",
        restarts=state.restart_count,
        replicas=_current_size(counts.get(job.scalable_group)),
        selector=_selector(job),
        conditions=with_current_condition(read_conditions(previous), present, at),
        replica_statuses={name: _replica_status(each) for name, each in counts.items()},
        restart_count=restarts,
        restart_replica_name=state.last_restarted_group,
        restart_causes=restarts_by_cause(state),
        first_cause=failure_status(state.root_cause) if state.root_cause else None,
        failures=tuple(map(failure_status, state.failures)),
        durations=phase_durations(state),
        scaling=scaling_status(job, state),
        start_time=_truncate_to_seconds(state.started_at),
        start_running_time=_truncate_to_seconds(state.first_running_at),
        end_time=_truncate_to_seconds(state.ended_at),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(words))


def render_rejection(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, phase and memory included, with the problem on top; told once, it stays as it is."""
    present = PhaseCondition(type=INVALID, status="True", reason="InvalidSpec", message=str(problem))
    history = read_conditions(previous)
    conditions = with_current_condition(history, present, _truncate_to_seconds(now))
    if conditions == history:
        return dict(previous)
    return {
        **previous,
        "phase": previous.get("phase") or "",
        "reason": present.reason,
        "message": present.message,
        "conditions": to_json_data(conditions),
        "lastReconcileTime": to_json_data(_truncate_to_seconds(now)),
    }


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    history = read_conditions(status)
    return bool(history) and history[-1].type == INVALID


def state_from_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs another operator ran: what ended stays ended.

    A job that was still under way keeps the number of its restarts and is otherwise looked at afresh.
    """
    words = _decode_status(status)
    if words is None or words.phase not in list(JobPhase):
        return None
    phase = JobPhase(words.phase)
    history = read_conditions(status)
    counts = {name: each for name, each in words.restart_count.items() if each > 0}
    return EngineState(
        phase=phase if phase.is_final else JobPhase.PENDING,
        message=history[-1].message if history else "",
        started_at=words.start_time or created_at,
        first_running_at=words.start_running_time,
        ended_at=words.end_time if phase.is_final else None,
        groups={
            name: GroupState(attempt=each, restarts_by_cause={RestartCause.APP: each}) for name, each in counts.items()
        },
    )


def _decode_status(status: Mapping[str, Any]) -> AITrainingJobStatus | None:
    told = {key: value for key, value in status.items() if value is not None}
    try:
        return msgspec.convert({**told, "conditions": ()}, AITrainingJobStatus)
    except msgspec.ValidationError:
        return None  # not words of ours: nothing to inherit


def _replica_status(counts: ReplicaCounts) -> AITrainingReplicaStatus:
    return AITrainingReplicaStatus(
        pending=counts.pending,
        scheduled=counts.scheduled,
        active=counts.active,
        succeeded=counts.succeeded,
        restarting=counts.restarting,
        failed=counts.failed,
    )


def _current_size(counts: ReplicaCounts | None) -> int | None:
    return None if counts is None else counts.pending + counts.scheduled + counts.active


def _selector(job: Job) -> str:
    """Labels of the elastic group's pods; the words of `kubectl get -l`."""
    return (
        f"{JOB_NAME_LABEL}={job.key.name},{REPLICA_NAME_LABEL}={job.scalable_group.lower().replace('/', '-')}"
        if job.scalable_group
        else ""
    )


@overload
def _truncate_to_seconds(timestamp: datetime) -> datetime: ...
@overload
def _truncate_to_seconds(timestamp: None) -> None: ...
def _truncate_to_seconds(timestamp: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if timestamp is None else timestamp.replace(microsecond=0)
