"""The event queue of the simulation, ordered by time and then by insertion."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class EventQueue:
    def __init__(self) -> None:
        self.now = 0.0
        self._sequence = 0
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []

    def schedule(self, time: float, callback: Callable[[Any], None], argument: Any) -> None:
        """Schedule a callback; a time in the past means now."""
        self._sequence += 1
        heappush(self._events, (max(time, self.now), self._sequence, callback, argument))

    @property
    def next_event_at(self) -> float:
        return self._events[0][0] if self._events else math.inf

    def run_until(self, time: float) -> bool:
        """Run all events up to and including this time; return whether events remain."""
        events = self._events
        while events and events[0][0] <= time:
            self.now, _, callback, argument = heappop(events)
            callback(argument)
        if events:
            self.now = time
        return bool(events)
