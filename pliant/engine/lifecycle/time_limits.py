"""Limits in time: until a job runs, while it runs, and how long it is kept afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.engine.lifecycle.suspend import active_seconds
from pliant.model.job import Job
from pliant.model.state import EngineState, JobOutcome, JobPhase


def timeout_outcome(job: Job, state: EngineState, now: datetime) -> JobOutcome | None:
    """The verdict that the job has used up its time, if it has."""
    left = time_to_limit(job, state, now)
    if left is None or left > timedelta(0):
        return None
    if job.counts_time_from_start:
        message = f"not done within {job.time_limit} of its start"
    elif state.active_since is None:
        message = f"not all members ran within {job.start_limit} (startLimit): {state.message}"
    else:
        message = f"ran for {job.time_limit} (timeLimit)"
    return JobOutcome(phase=JobPhase.TIMEOUT, message=message, at=now, must_delete_all=True)


def time_to_limit(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """How long until the limit that applies now is reached; None if none does."""
    if state.phase is JobPhase.SUSPENDED:
        return None
    if job.counts_time_from_start:
        return _time_to_deadline(job, state, now)
    if state.active_since is not None:
        return None if job.time_limit is None else job.time_limit - timedelta(seconds=active_seconds(state, now))
    waits_from = state.resumed_at or state.started_at
    return None if job.start_limit is None else waits_from + job.start_limit - now


def _time_to_deadline(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """How long until a limit is reached that counts from the job's start, or from when it was resumed."""
    since = state.resumed_at or state.started_at
    return None if job.time_limit is None else since + job.time_limit - now


def ttl_left(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """How long a job that has ended is still to be kept; None for ever."""
    if job.ttl_after_finished is None:
        return None
    return (state.ended_at or state.started_at) + job.ttl_after_finished - now
