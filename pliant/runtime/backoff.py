"""How long to wait after a failure: longer each time, never the same twice."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

# Beyond this many doublings any sensible first wait has reached its cap.
_MAX_DOUBLINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits that double from `first` to `longest`, each shortened at random by up to a half."""

    initial: timedelta = timedelta(milliseconds=50)
    maximum: timedelta = timedelta(minutes=1)

    def delay(self, failures: int, rng: random.Random) -> timedelta:
        """How long to wait after so many failures in a row, at least one."""
        doubled = self.initial.total_seconds() * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
        return timedelta(seconds=min(self.maximum.total_seconds(), doubled) * rng.uniform(0.5, 1.0))
