"""The status of a PaddleJob in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, overload

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.memory import BLOB, blob_of, plain
from pliant.frontends.paddle.types import PaddleJobStatus, RoleStatus
from pliant.frontends.results import failure_words
from pliant.frontends.scaling import scaling_in
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.state import EngineState, GroupCounts, Phase

CREATING, RUNNING, SCALING, SUSPENDED = "creating", "running", "scaling", "suspended"
SUCCEEDED, FAILED, STARTING = "succeeded", "failed", "starting"
_WORDS = {
    Phase.PENDING: CREATING,
    Phase.CREATING: CREATING,
    Phase.RUNNING: RUNNING,
    Phase.RESTARTING: RUNNING,
    Phase.SUSPENDED: SUSPENDED,
    Phase.SUCCEED: SUCCEEDED,
}
_ENDS = {"succeeded": Phase.SUCCEED, "succeed": Phase.SUCCEED, "failed": Phase.FAILED, "timeout": Phase.TIMEOUT}
"""Ends in the words of every operator that this kind has had, in lower case."""
_RESIZED, _PASSAGES = "Resized", ("Resized", str(Phase.RUNNING), str(Phase.RESTARTING))


def rendered_status(status: JobStatus, job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state, counts = status.state, status.counts
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.verdict.phase if state.verdict else state.phase
    ended = state.verdict.at if state.verdict else state.ended_at
    trainers = counts.get(job.elastic, GroupCounts())
    words = PaddleJobStatus(
        phase=SCALING if _is_scaling(status) else _WORDS.get(phase, FAILED),
        reason="; ".join(filter(None, [state.message, *job.warnings])),
        ready=f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}",
        replicas=trainers.pending + trainers.scheduled + trainers.active + trainers.restarting,
        selector=f"paddle-job={job.key.name}",
        restarts=state.restarts,
        replica_statuses=tuple(_role_status(name, each) for name, each in counts.items()),
        scaling=scaling_in(job, state),
        first_cause=failure_words(state.first_cause) if state.first_cause else None,
        start_time=_seconds(state.started_at),
        running_time=_seconds(state.running_at),
        completion_time=_seconds(ended),
        last_reconcile_time=_seconds(state.written_at or state.started_at),
        pliant=blob_of(state),
    )
    return cast("dict[str, Any]", plain(words))


def rejected_status(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, memory included, with the problem in it; told once, it stays as it is."""
    if previous.get("invalid") == str(problem):
        return dict(previous)
    # Of a job that never began this is all there is to tell; one under way is where it was.
    phase = previous.get("phase") if previous.get(BLOB) else FAILED
    told = {
        "phase": phase,
        "reason": str(problem),
        "invalid": str(problem),
        "lastReconcileTime": plain(_seconds(now)),
    }
    return {**previous, **{name: value for name, value in told.items() if value is not None}}


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    return bool(status.get("invalid"))


def inherited(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so."""
    if is_rejected_status(status):
        return None  # words of ours: it never began
    word = status.get("phase") or status.get("state")
    phase = _ENDS.get(word.lower()) if isinstance(word, str) else None
    if phase is None:
        return None
    reason = status.get("reason") or status.get("message")
    return EngineState(
        phase=phase,
        message=reason if isinstance(reason, str) else "",
        started_at=_time(status.get("startTime")) or created_at,
        ended_at=_time(status.get("completionTime")) or created_at,
    )


def _is_scaling(status: JobStatus) -> bool:
    """Whether the job is on its way to another size: it was resized last, and not everybody is up since."""
    state = status.state
    if state.verdict or state.phase not in (Phase.RUNNING, Phase.RESTARTING):
        return False
    latest = next((moment.what for moment in reversed(state.timeline) if moment.what in _PASSAGES), "")
    return latest == _RESIZED and any(
        each.size != state.group(name).size or each.active + each.succeeded + each.failed < each.size
        for name, each in status.counts.items()
    )


def _role_status(name: str, counts: GroupCounts) -> RoleStatus:
    tally = {
        STARTING: counts.pending + counts.scheduled + counts.restarting,
        RUNNING: counts.active,
        SUCCEEDED: counts.succeeded,
        FAILED: counts.failed,
    }
    states = {state: number for state, number in tally.items() if number}
    # What asks for attention first, then what goes on, then what is over.
    state = next((each for each in (FAILED, STARTING, RUNNING, SUCCEEDED) if each in states), "")
    return RoleStatus(training_resource_type=name.upper(), state=state, resource_states=states)


def _time(value: Any) -> datetime | None:
    try:
        found = msgspec.convert(value, datetime | None)
    except msgspec.ValidationError:
        return None
    return found if found is not None and found.tzinfo else None


@overload
def _seconds(moment: datetime) -> datetime: ...
@overload
def _seconds(moment: None) -> None: ...
def _seconds(moment: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if moment is None else moment.replace(microsecond=0)
