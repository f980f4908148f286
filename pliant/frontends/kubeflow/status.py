"""The status of a kubeflow.org job in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.kubeflow.types import JobCondition, ReplicaStatus
from pliant.frontends.kubeflow.types import JobStatus as Words
from pliant.frontends.memory import blob_of, plain
from pliant.frontends.scaling import scaling_in
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.labels import member_group
from pliant.model.state import EngineState, GroupCounts, Moment, Phase

CREATED, RUNNING, RESTARTING, SUSPENDED = "Created", "Running", "Restarting", "Suspended"
SUCCEEDED, FAILED, INVALID = "Succeeded", "Failed", "Invalid"

_TYPE_OF_PHASE = {
    Phase.PENDING: CREATED,
    Phase.CREATING: CREATED,
    Phase.RUNNING: RUNNING,
    Phase.RESTARTING: RESTARTING,
    Phase.SUSPENDED: SUSPENDED,
    Phase.SUCCEED: SUCCEEDED,
}
_REASONS = {Phase.TIMEOUT: "DeadlineExceeded", Phase.PREEMPTED: "Preempted", Phase.NODE_FAIL: "NodeFail"}
_EXCLUSIVE = (RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED)
"""Of these at most one is True."""


def rendered_status(status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state = status.state
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.verdict.phase if state.verdict else state.phase
    at = _seconds(state.written_at or state.started_at)
    kind = _TYPE_OF_PHASE.get(phase, FAILED)
    reason = _REASONS.get(phase, f"{job.owner.kind}{kind}")
    ended = state.verdict.at if state.verdict else state.ended_at
    conditions = conditions_in(previous)
    if not conditions:
        born = JobCondition(type=CREATED, status="True", reason=f"{job.owner.kind}{CREATED}", message="accepted")
        conditions = (replace(born, last_update_time=at, last_transition_time=at),)
    words = Words(
        conditions=told_of(
            conditions, JobCondition(type=kind, status="True", reason=reason, message=state.message), at
        ),
        replica_statuses={name: _replica_status(job, name, each) for name, each in status.counts.items()},
        start_time=_seconds(state.waiting_from or state.started_at),
        completion_time=_seconds(ended) if ended else None,
        last_reconcile_time=at,
        scaling=scaling_in(job, state),
        pliant=blob_of(state),
    )
    return cast("dict[str, Any]", plain(words))


def told_of(history: tuple[JobCondition, ...], present: JobCondition, at: datetime) -> tuple[JobCondition, ...]:
    """The conditions with the present one True and last, where people and programs look for it.

    Others that exclude it become False, of running and restarting only one is kept, and complaints go.
    """
    gone = {INVALID, present.type, _INSTEAD_OF.get(present.type, "")}
    before = next((entry for entry in history if entry.type == present.type), None)
    others = [_excluded(entry, present, at) for entry in history if entry.type not in gone]
    if before is None:
        return (*others, replace(present, last_update_time=at, last_transition_time=at))
    return (*others, _updated(before, present, at))


_INSTEAD_OF = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def _excluded(entry: JobCondition, present: JobCondition, at: datetime) -> JobCondition:
    if entry.type not in _EXCLUSIVE or entry.status != "True":
        return entry
    over = replace(entry, status="False", last_update_time=at, last_transition_time=at)
    if entry.type != SUSPENDED or present.type == SUSPENDED:
        return over
    return replace(over, reason=entry.reason.replace(SUSPENDED, "Resumed"), message="resumed")


def _updated(entry: JobCondition, present: JobCondition, at: datetime) -> JobCondition:
    same = ("type", "status", "reason", "message")
    if all(getattr(entry, name) == getattr(present, name) for name in same):
        return entry
    since = entry.last_transition_time if entry.status == present.status else at
    return replace(present, last_update_time=at, last_transition_time=since)


def rejected_status(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, memory included, with the problem beside it; told once, it stays as it is."""
    history = conditions_in(previous)
    at = _seconds(now)
    complaint = JobCondition(type=INVALID, status="True", reason="InvalidSpec", message=str(problem))
    if any((entry.type, entry.message) == (INVALID, complaint.message) for entry in history):
        return dict(previous)
    others = tuple(entry for entry in history if entry.type != INVALID)
    dated = replace(complaint, last_update_time=at, last_transition_time=at)
    return {**previous, "conditions": plain((*others, dated)), "lastReconcileTime": plain(at)}


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    return any(entry.type == INVALID for entry in conditions_in(status))


def inherited(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so, what runs goes on."""
    try:
        words = msgspec.convert(
            {key: status[key] for key in ("startTime", "completionTime") if status.get(key)}, Words
        )
    except msgspec.ValidationError:
        return None
    for entry in conditions_in(status):
        if entry.type in (SUCCEEDED, FAILED) and entry.status == "True":
            phase = Phase.SUCCEED if entry.type == SUCCEEDED else Phase.FAILED
            start = words.start_time or created_at
            end = words.completion_time or entry.last_transition_time or start
            return EngineState(phase=phase, message=entry.message, started_at=start, ended_at=end)
    if words.start_time is None:
        return None
    begun = Moment(at=words.start_time, what=str(Phase.PENDING), why="begun under another operator")
    return EngineState(phase=Phase.PENDING, started_at=words.start_time, timeline=(begun,))


def conditions_in(status: Mapping[str, Any]) -> tuple[JobCondition, ...]:
    """The conditions of a raw status; what is not a condition is left out."""
    entries = status.get("conditions")
    return tuple(filter(None, map(_condition, entries))) if isinstance(entries, list) else ()


def _condition(entry: Any) -> JobCondition | None:
    try:
        return msgspec.convert(entry, JobCondition)
    except msgspec.ValidationError:
        return None


def _replica_status(job: Job, group: str, counts: GroupCounts) -> ReplicaStatus:
    return ReplicaStatus(
        active=counts.pending + counts.scheduled + counts.active + counts.restarting,
        succeeded=counts.succeeded,
        failed=counts.failed,
        selector=f"training.kubeflow.org/job-name={job.key.name},"
        f"training.kubeflow.org/replica-type={member_group(group)}",
    )


def _seconds(moment: datetime) -> datetime:
    """Times in a status are whole seconds."""
    return moment.replace(microsecond=0)
