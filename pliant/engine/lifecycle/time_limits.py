"""The time limits of a job: startLimit, timeLimit and the TTL after it finished."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.engine.lifecycle.suspend import active_seconds
from pliant.model.job import Job
from pliant.model.state import EngineState, JobOutcome, JobPhase


def timeout_outcome(job: Job, state: EngineState, now: datetime) -> JobOutcome | None:
    left = time_to_limit(job, state, now)
    if left is None or left > timedelta(0):
        return None
    if job.counts_time_from_start:
        message = f"not completed within {job.time_limit} of the start"
    elif state.active_since is None:
        message = f"not all replicas were running within {job.start_limit} (startLimit): {state.message}"
    else:
        message = f"ran for {job.time_limit} (timeLimit)"
    return JobOutcome(phase=JobPhase.TIMEOUT, message=message, at=now, must_delete_all=True)


def time_to_limit(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """Return the time until the current limit is reached; None if no limit applies."""
    if state.phase is JobPhase.SUSPENDED:
        return None
    since = state.resumed_at or state.started_at
    if job.counts_time_from_start:
        return None if job.time_limit is None else since + job.time_limit - now
    if state.active_since is not None:
        return None if job.time_limit is None else job.time_limit - timedelta(seconds=active_seconds(state, now))
    return None if job.start_limit is None else since + job.start_limit - now


def ttl_left(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """Return the time until a finished job is deleted; None if it is kept."""
    if job.ttl_after_finished is None:
        return None
    return (state.ended_at or state.started_at) + job.ttl_after_finished - now
