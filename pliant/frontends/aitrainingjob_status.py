"""The status of an AITrainingJob in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, overload

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob_types import AITrainingJobStatus, ReplicaStatus
from pliant.frontends.conditions import Condition, history_in, moved_to
from pliant.frontends.memory import blob_of, plain
from pliant.frontends.results import durations_in, failure_words, restart_causes
from pliant.frontends.scaling import scaling_in
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.labels import JOB, REPLICA
from pliant.model.state import Cause, EngineState, GroupCounts, GroupState, Phase

INVALID = "Invalid"
"""The condition of a job that cannot be understood."""


def rendered_status(status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state = status.state
    counts = status.counts
    at = _seconds(state.written_at or state.started_at)
    reason = f"TrainingJob{state.phase}"
    present = Condition(type=state.phase, status="True", reason=reason, message=state.message)
    restarts = {name: state.group(name).spent for name in {**counts, **state.groups}}
    words = AITrainingJobStatus(
        phase=state.phase,
        reason=reason,
        message=state.message,
        ready=f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}",
        restarts=state.restarts,
        replicas=_present_size(counts.get(job.elastic)),
        selector=_selector(job),
        conditions=moved_to(history_in(previous), present, at),
        replica_statuses={name: _replica_status(each) for name, each in counts.items()},
        restart_count=restarts,
        restart_replica_name=state.restarted_group,
        restart_causes=restart_causes(state),
        first_cause=failure_words(state.first_cause) if state.first_cause else None,
        failures=tuple(map(failure_words, state.failures)),
        durations=durations_in(state),
        scaling=scaling_in(job, state),
        start_time=_seconds(state.started_at),
        start_running_time=_seconds(state.running_at),
        end_time=_seconds(state.ended_at),
        last_reconcile_time=at,
        pliant=blob_of(state),
    )
    return cast("dict[str, Any]", plain(words))


def rejected_status(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, phase and memory included, with the problem on top; told once, it stays as it is."""
    present = Condition(type=INVALID, status="True", reason="InvalidSpec", message=str(problem))
    history = history_in(previous)
    conditions = moved_to(history, present, _seconds(now))
    if conditions == history:
        return dict(previous)
    return {
        **previous,
        "phase": previous.get("phase") or "",
        "reason": present.reason,
        "message": present.message,
        "conditions": plain(conditions),
        "lastReconcileTime": plain(_seconds(now)),
    }


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    history = history_in(status)
    return bool(history) and history[-1].type == INVALID


def inherited(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs another operator ran: what ended stays ended.

    A job that was still under way keeps the number of its restarts and is otherwise looked at afresh.
    """
    words = _words(status)
    if words is None or words.phase not in list(Phase):
        return None
    phase = Phase(words.phase)
    history = history_in(status)
    counts = {name: each for name, each in words.restart_count.items() if each > 0}
    return EngineState(
        phase=phase if phase.is_final else Phase.PENDING,
        message=history[-1].message if history else "",
        started_at=words.start_time or created_at,
        running_at=words.start_running_time,
        ended_at=words.end_time if phase.is_final else None,
        groups={name: GroupState(attempt=each, restarts={Cause.APP: each}) for name, each in counts.items()},
    )


def _words(status: Mapping[str, Any]) -> AITrainingJobStatus | None:
    told = {key: value for key, value in status.items() if value is not None}
    try:
        return msgspec.convert({**told, "conditions": ()}, AITrainingJobStatus)
    except msgspec.ValidationError:
        return None  # not words of ours: nothing to inherit


def _replica_status(counts: GroupCounts) -> ReplicaStatus:
    return ReplicaStatus(
        pending=counts.pending,
        scheduled=counts.scheduled,
        active=counts.active,
        succeeded=counts.succeeded,
        restarting=counts.restarting,
        failed=counts.failed,
    )


def _present_size(counts: GroupCounts | None) -> int | None:
    return None if counts is None else counts.pending + counts.scheduled + counts.active


def _selector(job: Job) -> str:
    """Labels of the elastic group's pods; the words of `kubectl get -l`."""
    return f"{JOB}={job.key.name},{REPLICA}={job.elastic.lower().replace('/', '-')}" if job.elastic else ""


@overload
def _seconds(moment: datetime) -> datetime: ...
@overload
def _seconds(moment: None) -> None: ...
def _seconds(moment: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if moment is None else moment.replace(microsecond=0)
