"""Keep a container within its memory: by looking, as nothing tells of it."""

from __future__ import annotations

import time

from pliant.embedded.agent import footprint
from pliant.embedded.agent.place import Place

_SHORTEST, _LONGEST = 0.25, 1.0
"""Seconds between two looks; those whose memory stays the same are looked at less and less often."""


class Limit:
    """What the processes of a container may hold together."""

    def __init__(self, place: Place, most: int) -> None:
        self._place = place
        self._most = most
        self._resident = 0
        self._pause = _SHORTEST
        self._due = 0.0
        self.is_passed = False
        """Whether they were killed for it."""

    def patience(self) -> float:
        """Milliseconds until the next look."""
        return max(0.0, self._due - time.monotonic()) * 1000

    def look(self) -> None:
        """Kill all of them if they hold too much, when it is time to look."""
        now = time.monotonic()
        if now < self._due:
            return
        processes = self._place.members()
        resident = footprint.resident(processes)
        self._pause = min(self._pause * 2, _LONGEST) if resident == self._resident else _SHORTEST
        self._due, self._resident = now + self._pause, resident
        # Counting what is held is dear; what is resident is never less.
        if resident > self._most and footprint.held(processes) > self._most:
            self.is_passed = True
            self._place.kill_all()
