"""Limits in time: until a job runs, while it runs, and how long it is kept afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.engine.suspending import seconds_run
from pliant.model.job import Job
from pliant.model.state import EngineState, Phase, Verdict


def overrun(job: Job, state: EngineState, now: datetime) -> Verdict | None:
    """The verdict that the job has used up its time, if it has."""
    left = time_left(job, state, now)
    if left is None or left > timedelta(0):
        return None
    if job.is_limited_from_start:
        message = f"not done within {job.time_limit} of its start"
    elif state.clock_from is None:
        message = f"not all members ran within {job.start_limit} (startLimit): {state.message}"
    else:
        message = f"ran for {job.time_limit} (timeLimit)"
    return Verdict(phase=Phase.TIMEOUT, message=message, at=now, must_clear=True)


def time_left(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """How long until the limit that applies now is reached; None if none does."""
    if state.phase is Phase.SUSPENDED:
        return None
    if job.is_limited_from_start:
        return _deadline_left(job, state, now)
    if state.clock_from is not None:
        return None if job.time_limit is None else job.time_limit - timedelta(seconds=seconds_run(state, now))
    waits_from = state.waiting_from or state.started_at
    return None if job.start_limit is None else waits_from + job.start_limit - now


def _deadline_left(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """How long until a limit is reached that counts from the job's start, or from when it was resumed."""
    since = state.waiting_from or state.started_at
    return None if job.time_limit is None else since + job.time_limit - now


def life_left(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """How long a job that has ended is still to be kept; None for ever."""
    if job.time_to_live is None:
        return None
    return (state.ended_at or state.started_at) + job.time_to_live - now
