"""What is to happen when, in order of time and then of being written down."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class EventQueue:
    """A clock that jumps from one thing to the next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sequence = 0
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []

    def schedule(self, time: float, callback: Callable[[Any], None], argument: Any) -> None:
        """Do this then, or at once if then is past."""
        self._sequence += 1
        heappush(self._events, (max(time, self.now), self._sequence, callback, argument))

    @property
    def next_event_at(self) -> float:
        """When the next thing is to happen; never, if nothing is."""
        return self._events[0][0] if self._events else math.inf

    def run_until(self, time: float) -> bool:
        """Do everything up to and at that time; whether anything is left for later."""
        things = self._events
        while things and things[0][0] <= time:
            self.now, _, action, argument = heappop(things)
            action(argument)
        if things:
            self.now = time
        return bool(things)
