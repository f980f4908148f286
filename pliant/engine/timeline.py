"""The bounded story of a job, kept in its status."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from pliant.model.state import EngineState, Moment, Stage

LONGEST = 24
"""Moments kept; the oldest go first, so a job that restarts for months does not outgrow its object."""


def noted(state: EngineState, at: datetime, what: str, why: str = "") -> EngineState:
    """The same memory with one more moment in its timeline."""
    return replace(state, timeline=(*state.timeline, Moment(at=at, what=what, why=why))[-LONGEST:])


def accounted(state: EngineState, at: datetime) -> EngineState:
    """The memory with the time in a phase that was left on its account."""
    stage = state.stage
    if stage is not None and stage.phase is state.phase:
        return state
    begun = replace(state, stage=Stage(phase=state.phase, since=at))
    if stage is None:
        return begun
    # By a clock that was put back it may lie ahead: that took no time.
    seconds = max((at - stage.since).total_seconds(), 0.0)
    return replace(begun, spent={**state.spent, stage.phase: state.spent.get(stage.phase, 0.0) + seconds})
