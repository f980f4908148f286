"""The timeline and the phase durations in the status of a job."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from pliant.model.state import EngineState, PhaseStart, TimelineEntry

MAX_TIMELINE_ENTRIES = 24
"""Older entries are dropped, so that the status stays small however often a job restarts."""


def with_timeline_entry(state: EngineState, at: datetime, reason: str, message: str = "") -> EngineState:
    entry = TimelineEntry(at=at, reason=reason, message=message)
    return replace(state, timeline=(*state.timeline, entry)[-MAX_TIMELINE_ENTRIES:])


def with_phase_time(state: EngineState, at: datetime) -> EngineState:
    """If the phase has changed, add the time spent in the previous phase and start counting for the new one."""
    previous = state.phase_start
    if previous is not None and previous.phase is state.phase:
        return state
    after = replace(state, phase_start=PhaseStart(phase=state.phase, since=at))
    if previous is None:
        return after
    # The start may lie in the future if the clock was set back.
    seconds = max((at - previous.since).total_seconds(), 0.0) + state.phase_seconds.get(previous.phase, 0.0)
    return replace(after, phase_seconds={**state.phase_seconds, previous.phase: seconds})
