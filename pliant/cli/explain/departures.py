"""Explains which replicas save their state before they are deleted or drained."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pliant.cli.durations import format_duration
from pliant.model.departures import Departure
from pliant.model.english import departure_cause_text, summarize_names
from pliant.model.state import EngineState


def explain_departures(state: EngineState, now: datetime) -> Iterator[str]:
    """Yield one sentence for each checkpoint request."""
    by_request: dict[int, list[Departure]] = {}
    for departure in state.departures.values():
        by_request.setdefault(departure.request, []).append(departure)
    for request, departures in sorted(by_request.items()):
        ordered = sorted(departures, key=lambda each: (each.group, each.index))
        cause = departure_cause_text(ordered[0].reason)
        saved = [f"{each.group}-{each.index}" for each in ordered if each.acknowledged_at is not None]
        waiting = [f"{each.group}-{each.index}" for each in ordered if each.acknowledged_at is None]
        left = max(ordered[0].deadline - now, now - now)
        parts = [f"{summarize_names(saved)} saved the state"] if saved else []
        parts += [f"waiting for {summarize_names(waiting)}, {format_duration(left)} left"] if waiting else []
        yield f"Checkpoint request {request} {cause}: {'; '.join(parts)}."
