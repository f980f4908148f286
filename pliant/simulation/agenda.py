"""What is to happen when, in order of time and then of being written down."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Agenda:
    """A clock that jumps from one thing to the next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._number = 0
        self._things: list[tuple[float, int, Callable[[Any], None], Any]] = []

    def at(self, time: float, action: Callable[[Any], None], argument: Any) -> None:
        """Do this then, or at once if then is past."""
        self._number += 1
        heappush(self._things, (max(time, self.now), self._number, action, argument))

    @property
    def next_at(self) -> float:
        """When the next thing is to happen; never, if nothing is."""
        return self._things[0][0] if self._things else math.inf

    def advance(self, until: float) -> bool:
        """Do everything up to and at that time; whether anything is left for later."""
        things = self._things
        while things and things[0][0] <= until:
            self.now, _, action, argument = heappop(things)
            action(argument)
        if things:
            self.now = until
        return bool(things)
