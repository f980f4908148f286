"""Timers of a job that go on as if the machine had not slept and nobody had set its clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.model.departures import Departure
from pliant.model.state import ClockOffset, EngineState, GroupState

_MIN_JUMP_SECONDS = 1.0


def align_timers(state: EngineState, clock: ClockOffset | None) -> EngineState:
    """Return the state with timers that belong to the current offset of the clock.

    Times that users see (when the job started, ended, was resumed) stay: `uncounted_seconds` has the difference.
    """
    known = state.clock_offset
    if clock is None or clock == known:
        return state
    if known is None or known.boot_id != clock.boot_id:
        return replace(state, clock_offset=clock)  # what happened to the clock between two machines is unknown
    seconds = clock.seconds - known.seconds
    if abs(seconds) < _MIN_JUMP_SECONDS:
        return state
    jump = timedelta(seconds=seconds)
    plans = {uid: replace(each, started_at=each.started_at + jump) for uid, each in state.plan_executions.items()}
    phase_start = state.phase_start
    return replace(
        state,
        clock_offset=clock,
        uncounted_seconds=state.uncounted_seconds + seconds,
        active_since=_move(state.active_since, jump),
        status_written_at=_move(state.status_written_at, jump),
        work_done_since=_move(state.work_done_since, jump),
        phase_start=replace(phase_start, since=phase_start.since + jump) if phase_start is not None else None,
        plan_executions=plans,
        departures={uid: _align_departure(each, jump) for uid, each in state.departures.items()},
        groups={name: _align_group(group, jump) for name, group in state.groups.items()},
    )


def _align_group(group: GroupState, jump: timedelta) -> GroupState:
    requests = {source: replace(each, at=each.at + jump) for source, each in group.size_requests.items()}
    return replace(
        group,
        size_requests=requests,
        creation_stuck_since=_move(group.creation_stuck_since, jump),
        last_restart_at=_move(group.last_restart_at, jump),
    )


def _align_departure(departure: Departure, jump: timedelta) -> Departure:
    return replace(
        departure,
        at=departure.at + jump,
        deadline=departure.deadline + jump,
        acknowledged_at=_move(departure.acknowledged_at, jump),
    )


def _move(at: datetime | None, jump: timedelta) -> datetime | None:
    return at + jump if at is not None else None
