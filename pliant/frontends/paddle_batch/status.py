"""The status of a PaddleJob of batch.paddlepaddle.org in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, overload

import msgspec

from pliant.frontends.conditions import Condition, history_in, moved_to
from pliant.frontends.memory import blob_of, plain
from pliant.frontends.paddle_batch.types import (
    HETER,
    PS,
    ROLES,
    WORKER,
    PaddleJobStatus,
    PodReference,
    RoleStatus,
)
from pliant.frontends.results import failure_words
from pliant.frontends.scaling import scaling_in
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.labels import JOB, REPLICA
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, GroupCounts, Moment, Phase

COMPLETED, FAILED = "Completed", "Failed"
MOST_TOLD = 200
"""Pods of a role that are named: an object holds about a megabyte."""

_PHASES = {
    Phase.PENDING: "Pending",
    Phase.CREATING: "Starting",
    Phase.RUNNING: "Running",
    Phase.RESTARTING: "Restarting",
    Phase.SUSPENDED: "Suspended",
    Phase.SUCCEED: COMPLETED,
}
_REASONS = {Phase.TIMEOUT: "Timeout", Phase.PREEMPTED: "Preempted", Phase.NODE_FAIL: "NodeFail"}


def rendered_status(status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state = status.state
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.verdict.phase if state.verdict else state.phase
    word = _PHASES.get(phase, FAILED)
    at = _seconds(state.written_at or state.started_at)
    reason = _REASONS.get(phase, f"PaddleJob{word}")
    present = Condition(type=word, status="True", reason=reason, message=state.message)
    roles = {role: _role_status(role, status, previous, job) for role in ROLES if job.group(role)}
    words = PaddleJobStatus(
        phase=word,
        mode=_mode(job, state),
        ps=roles.get(PS),
        worker=roles.get(WORKER),
        heter=roles.get(HETER),
        start_time=_seconds(state.running_at),
        completion_time=_seconds(state.verdict.at if state.verdict else state.ended_at),
        reason=reason,
        message=state.message,
        restarts=state.restarts,
        conditions=moved_to(history_in(previous), present, at),
        first_cause=failure_words(state.first_cause) if state.first_cause else None,
        scaling=scaling_in(job, state),
        last_reconcile_time=at,
        pliant=blob_of(state),
    )
    return cast("dict[str, Any]", plain(words))


def inherited(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so, what runs goes on."""
    told = {key: status[key] for key in ("phase", "startTime", "completionTime") if status.get(key)}
    try:
        words = msgspec.convert(told, PaddleJobStatus)
    except msgspec.ValidationError:
        return None  # not words of ours: nothing to inherit
    if words.phase in (COMPLETED, FAILED):
        phase = Phase.SUCCEED if words.phase == COMPLETED else Phase.FAILED
        start = words.start_time or created_at
        end = words.completion_time or start
        return EngineState(phase=phase, message="ended under another operator", started_at=start, ended_at=end)
    if words.start_time is None:
        return None
    begun = Moment(at=words.start_time, what=str(Phase.PENDING), why="begun under another operator")
    return EngineState(phase=Phase.PENDING, started_at=words.start_time, timeline=(begun,))


def _mode(job: Job, state: EngineState) -> str:
    """PS with servers; a worker that may get company is not single."""
    if job.group(PS):
        return "PS"
    workers = job.group(WORKER)
    if workers is None:
        return "Single"
    size = state.group(WORKER).size
    largest = max(workers.size if size is None else size, workers.most or 0)
    return "Collective" if largest > 1 else "Single"


def _role_status(role: str, status: JobStatus, previous: Mapping[str, Any], job: Job) -> RoleStatus:
    counts = status.counts.get(role, GroupCounts())
    return RoleStatus(
        pending=counts.pending,
        starting=counts.scheduled + counts.restarting,
        running=counts.active,
        failed=counts.failed,
        succeeded=counts.succeeded,
        refs=_refs(role, status.pods, previous, job),
        replicas=counts.pending + counts.scheduled + counts.active + counts.restarting,
        selector=f"{JOB}={job.key.name},{REPLICA}={role}",
    )


def _refs(
    role: str, pods: tuple[ObservedPod, ...] | None, previous: Mapping[str, Any], job: Job
) -> tuple[PodReference, ...]:
    """The pods of a role by index; as they were told last, if nobody looked."""
    if pods is None:
        before = previous.get(role)
        try:
            return msgspec.convert(before, RoleStatus).refs
        except msgspec.ValidationError:
            return ()
    mine = sorted((pod for pod in pods if pod.group == role), key=lambda pod: pod.index)
    return tuple(PodReference(namespace=job.key.namespace, name=pod.name, uid=pod.uid) for pod in mine[:MOST_TOLD])


@overload
def _seconds(moment: datetime) -> datetime: ...
@overload
def _seconds(moment: None) -> None: ...
def _seconds(moment: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if moment is None else moment.replace(microsecond=0)
