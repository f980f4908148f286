"""The status of a PaddleJob in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, overload

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.types import PaddleJobStatus, PaddleRoleStatus
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status.engine_state import STATE_FIELD, dump_state, to_json_data
from pliant.frontends.status.results import failure_status
from pliant.model.actions import JobStatusUpdate
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
_FINAL_PHASES = {
    "succeeded": JobPhase.SUCCEED,
    "succeed": JobPhase.SUCCEED,
    "failed": JobPhase.FAILED,
    "timeout": JobPhase.TIMEOUT,
}
"""Ends in the words of every operator that this kind has had, in lower case."""
_RESIZED_EVENT, _TRANSITION_EVENTS = "Resized", ("Resized", str(JobPhase.RUNNING), str(JobPhase.RESTARTING))


def render_status(status: JobStatusUpdate, job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state, counts = status.state, status.replica_counts
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.outcome.phase if state.outcome else state.phase
    ended = state.outcome.at if state.outcome else state.ended_at
    trainers = counts.get(job.scalable_group, ReplicaCounts())
    words = PaddleJobStatus(
        phase=SCALING if _is_scaling(status) else _PHASE_NAMES.get(phase, FAILED),
        reason="; ".join(filter(None, [state.message, *job.warnings])),
        ready=f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}",
        replicas=trainers.pending + trainers.scheduled + trainers.active + trainers.restarting,
        selector=f"paddle-job={job.key.name}",
        restarts=state.restart_count,
        replica_statuses=tuple(_role_status(name, each) for name, each in counts.items()),
        scaling=scaling_status(job, state),
        first_cause=failure_status(state.root_cause) if state.root_cause else None,
        start_time=_truncate_to_seconds(state.started_at),
        running_time=_truncate_to_seconds(state.first_running_at),
        completion_time=_truncate_to_seconds(ended),
        last_reconcile_time=_truncate_to_seconds(state.status_written_at or state.started_at),
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(words))


def render_rejection(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, memory included, with the problem in it; told once, it stays as it is."""
    if previous.get("invalid") == str(problem):
        return dict(previous)
    # Of a job that never began this is all there is to tell; one under way is where it was.
    phase = previous.get("phase") if previous.get(STATE_FIELD) else FAILED
    told = {
        "phase": phase,
        "reason": str(problem),
        "invalid": str(problem),
        "lastReconcileTime": to_json_data(_truncate_to_seconds(now)),
    }
    return {**previous, **{name: value for name, value in told.items() if value is not None}}


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    return bool(status.get("invalid"))


def state_from_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so."""
    if is_rejected_status(status):
        return None  # words of ours: it never began
    word = status.get("phase") or status.get("state")
    phase = _FINAL_PHASES.get(word.lower()) if isinstance(word, str) else None
    if phase is None:
        return None
    reason = status.get("reason") or status.get("message")
    return EngineState(
        phase=phase,
        message=reason if isinstance(reason, str) else "",
        started_at=_parse_time(status.get("startTime")) or created_at,
        ended_at=_parse_time(status.get("completionTime")) or created_at,
    )


def _is_scaling(status: JobStatusUpdate) -> bool:
    """Whether the job is on its way to another size: it was resized last, and not everybody is up since."""
    state = status.state
    if state.outcome or state.phase not in (JobPhase.RUNNING, JobPhase.RESTARTING):
        return False
    latest = next((moment.reason for moment in reversed(state.timeline) if moment.reason in _TRANSITION_EVENTS), "")
    return latest == _RESIZED_EVENT and any(
        each.size != state.group(name).applied_size or each.active + each.succeeded + each.failed < each.size
        for name, each in status.replica_counts.items()
    )


def _role_status(role_name: str, counts: ReplicaCounts) -> PaddleRoleStatus:
    tally = {
        STARTING: counts.pending + counts.scheduled + counts.restarting,
        RUNNING: counts.active,
        SUCCEEDED: counts.succeeded,
        FAILED: counts.failed,
    }
    states = {state: number for state, number in tally.items() if number}
    # What asks for attention first, then what goes on, then what is over.
    state = next((each for each in (FAILED, STARTING, RUNNING, SUCCEEDED) if each in states), "")
    return PaddleRoleStatus(training_resource_type=role_name.upper(), state=state, resource_states=states)


def _parse_time(value: Any) -> datetime | None:
    try:
        found = msgspec.convert(value, datetime | None)
    except msgspec.ValidationError:
        return None
    return found if found is not None and found.tzinfo else None


@overload
def _truncate_to_seconds(timestamp: datetime) -> datetime: ...
@overload
def _truncate_to_seconds(timestamp: None) -> None: ...
def _truncate_to_seconds(timestamp: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if timestamp is None else timestamp.replace(microsecond=0)
