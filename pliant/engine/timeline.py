"""The bounded story of a job, kept in its status."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from pliant.model.state import EngineState, Moment

LONGEST = 24
"""Moments kept; the oldest go first, so a job that restarts for months does not outgrow its object."""


def noted(state: EngineState, at: datetime, what: str, why: str = "") -> EngineState:
    """The same memory with one more moment in its timeline."""
    return replace(state, timeline=(*state.timeline, Moment(at=at, what=what, why=why))[-LONGEST:])
