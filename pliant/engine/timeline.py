"""The bounded story of a job, kept in its status."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from pliant.model.state import EngineState, PhaseStart, TimelineEntry

MAX_TIMELINE_ENTRIES = 24
"""Moments kept; the oldest go first, so a job that restarts for months does not outgrow its object."""


def with_timeline_entry(state: EngineState, at: datetime, reason: str, message: str = "") -> EngineState:
    """The same memory with one more moment in its timeline."""
    return replace(
        state, timeline=(*state.timeline, TimelineEntry(at=at, reason=reason, message=message))[-MAX_TIMELINE_ENTRIES:]
    )


def with_phase_time(state: EngineState, at: datetime) -> EngineState:
    """The memory with the time in a phase that was left on its account."""
    stage = state.phase_start
    if stage is not None and stage.phase is state.phase:
        return state
    begun = replace(state, phase_start=PhaseStart(phase=state.phase, since=at))
    if stage is None:
        return begun
    # By a clock that was put back it may lie ahead: that took no time.
    seconds = max((at - stage.since).total_seconds(), 0.0)
    return replace(
        begun, phase_seconds={**state.phase_seconds, stage.phase: state.phase_seconds.get(stage.phase, 0.0) + seconds}
    )
