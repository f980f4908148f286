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
    ElasticJobStatus,
    InnerStatus,
    JobCondition,
    ReplicaStatus,
)
from pliant.frontends.memory import blob_of, plain
from pliant.frontends.results import failure_words
from pliant.frontends.scaling import scaling_in
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.labels import JOB, REPLICA, member_group
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, GroupCounts, Moment, Phase

CREATED, PENDING, RUNNING, RESTARTING = "Created", "Pending", "Running", "Restarting"
SCALING, SUSPENDED, SUCCEEDED, FAILED, INVALID = "Scaling", "Suspended", "Succeeded", "Failed", "Invalid"
_ENDS = {Phase.SUCCEED: SUCCEEDED, Phase.TIMEOUT: FAILED, Phase.PREEMPTED: FAILED, Phase.NODE_FAIL: FAILED}
_REASONS = {Phase.TIMEOUT: "Timeout", Phase.PREEMPTED: "Preempted", Phase.NODE_FAIL: "NodeFail"}
_LASTING = (CREATED,)
"""Conditions that stay true, whatever comes after them."""


def rendered_status(status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state, counts = status.state, status.counts
    at = _seconds(state.written_at or state.started_at)
    condition = _condition_of(status)
    message = _message(state)
    ended = state.verdict.at if state.verdict else state.ended_at
    present = JobCondition(type=condition, status="True", reason=_reason(state, condition), message=message)
    replicas = {name: _replica_status(name, each, status.pods) for name, each in counts.items()}
    words = ElasticJobStatus(
        phase=RUNNING if condition == RESTARTING else condition,
        message=message,
        scale_plan=_plan(state) or _text(previous.get("scalePlan")),
        workers=_workers(counts.get(WORKER), state.group(WORKER).size),
        replicas=_present(counts.get(WORKER)),
        selector=f"{JOB}={job.key.name},{REPLICA}={WORKER}",
        restarts=state.restarts,
        status=InnerStatus(
            conditions=_told(_begun(_conditions(previous), at), present, at),
            replica_statuses=replicas,
            start_time=_seconds(state.started_at),
            completion_time=_seconds(ended) if ended else None,
            last_reconcile_time=at,
        ),
        scaling=scaling_in(job, state),
        first_cause=failure_words(state.first_cause) if state.first_cause else None,
        pliant=blob_of(state),
    )
    rendered = cast("dict[str, Any]", plain(words))
    # The kind's first definition asks for this field, also where there is nothing to say.
    rendered["status"].setdefault("replicaStatuses", {})
    return rendered


def rejected_status(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, memory included, with the problem beside it; told once, it stays as it is."""
    history = _conditions(previous)
    if any((entry.type, entry.message) == (INVALID, str(problem)) for entry in history):
        return dict(previous)
    at = _seconds(now)
    complaint = JobCondition(type=INVALID, status="True", reason="InvalidSpec", message=str(problem))
    others = (entry for entry in history if entry.type != INVALID)
    dated = replace(complaint, last_update_time=at, last_transition_time=at)
    inner = {**_inner(previous), "conditions": plain((*others, dated)), "lastReconcileTime": plain(at)}
    inner.setdefault("replicaStatuses", {})
    return {**previous, "message": str(problem), "status": inner}


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    return any(entry.type == INVALID for entry in _conditions(status))


def inherited(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so, what runs goes on."""
    inner = _inner(status)
    told = {key: inner[key] for key in ("startTime", "completionTime") if inner.get(key)}
    try:
        words = msgspec.convert(told, InnerStatus)
    except msgspec.ValidationError:
        return None  # not words of ours: nothing to inherit
    if status.get("phase") in (SUCCEEDED, FAILED):
        phase = Phase.SUCCEED if status["phase"] == SUCCEEDED else Phase.FAILED
        start = words.start_time or created_at
        end = words.completion_time or start
        return EngineState(phase=phase, message="ended under another operator", started_at=start, ended_at=end)
    if words.start_time is None:
        return None
    begun = Moment(at=words.start_time, what=str(Phase.PENDING), why="begun under another operator")
    return EngineState(phase=Phase.PENDING, started_at=words.start_time, timeline=(begun,))


def _condition_of(status: JobStatus) -> str:
    state = status.state
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.verdict.phase if state.verdict else state.phase
    if phase.is_final:
        return _ENDS.get(phase, FAILED)
    if phase is Phase.SUSPENDED:
        return SUSPENDED
    if phase is Phase.RUNNING:
        return SCALING if state.plans else RUNNING
    if phase is Phase.RESTARTING:
        return RESTARTING
    return PENDING if any(pod.group == MASTER for pod in status.pods or ()) else CREATED


def _reason(state: EngineState, condition: str) -> str:
    return _REASONS.get(state.verdict.phase if state.verdict else state.phase, f"Job{condition}")


def _message(state: EngineState) -> str:
    if not state.plans or state.verdict is not None or state.phase is not Phase.RUNNING:
        return state.message
    plans = sorted(state.plans.values(), key=lambda each: (each.at, each.name))
    return "; ".join(f"carries out {each.name}" + (f" ({each.why})" if each.why else "") for each in plans)


def _plan(state: EngineState) -> str:
    """The plan that was begun last, of those being carried out."""
    return max(((each.at, each.name) for each in state.plans.values()), default=(None, ""))[1]


def _begun(history: tuple[JobCondition, ...], at: datetime) -> tuple[JobCondition, ...]:
    if any(entry.type == CREATED for entry in history):
        return history
    born = JobCondition(type=CREATED, status="True", reason="JobCreated", message="accepted")
    return (replace(born, last_update_time=at, last_transition_time=at), *history)


def _told(history: tuple[JobCondition, ...], present: JobCondition, at: datetime) -> tuple[JobCondition, ...]:
    """The conditions with the present one True and last, where people and programs look for it."""
    if present.type in _LASTING:
        return tuple(entry for entry in history if entry.type != INVALID)
    gone = {INVALID, present.type, {RUNNING: RESTARTING, RESTARTING: RUNNING}.get(present.type)}
    others = [_over(entry, at) for entry in history if entry.type not in gone]
    before = next((entry for entry in history if entry.type == present.type), None)
    return (*others, _updated(before, present, at))


def _over(entry: JobCondition, at: datetime) -> JobCondition:
    if entry.type in _LASTING or entry.status != "True":
        return entry
    return replace(entry, status="False", last_update_time=at, last_transition_time=at)


def _updated(before: JobCondition | None, present: JobCondition, at: datetime) -> JobCondition:
    same = ("status", "reason", "message")
    if before is not None and all(getattr(before, name) == getattr(present, name) for name in same):
        return before
    since = before.last_transition_time if before is not None and before.status == present.status else at
    return replace(present, last_update_time=at, last_transition_time=since)


def _replica_status(name: str, counts: GroupCounts, pods: tuple[ObservedPod, ...] | None) -> ReplicaStatus:
    """Of those that wait, some have no pod yet."""
    made = [pod for pod in pods or () if pod.group == member_group(name) and pod.phase is PodPhase.PENDING]
    waiting = counts.pending if pods is None else min(counts.pending, len(made))
    return ReplicaStatus(
        initial=counts.pending - waiting,
        pending=waiting + counts.scheduled + counts.restarting,
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )


def _workers(counts: GroupCounts | None, wanted: int | None) -> str:
    """How many run, of those that are wanted; where nobody has said how many, of those that there are."""
    return f"{counts.active}/{wanted or counts.size - counts.failed}" if counts else ""


def _present(counts: GroupCounts | None) -> int | None:
    return None if counts is None else counts.pending + counts.scheduled + counts.active


def _inner(status: Mapping[str, Any]) -> dict[str, Any]:
    inner = status.get("status")
    return dict(inner) if isinstance(inner, Mapping) else {}


def _conditions(status: Mapping[str, Any]) -> tuple[JobCondition, ...]:
    entries = _inner(status).get("conditions")
    return tuple(filter(None, map(_condition, entries))) if isinstance(entries, list) else ()


def _condition(entry: Any) -> JobCondition | None:
    try:
        return msgspec.convert(entry, JobCondition)
    except msgspec.ValidationError:
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _seconds(moment: datetime) -> datetime:
    """Times in a status are whole seconds."""
    return moment.replace(microsecond=0)
