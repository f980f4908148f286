"""The only place that knows what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day; tests bring their own."""

    def now(self) -> datetime:
        """The present moment, in UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return datetime.now(UTC)


# Elsewhere than on Linux the monotonic clock itself goes on while the machine sleeps.
_UPTIME_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime_seconds() -> float:
    """Seconds since the machine was started; they pass also while this process or the machine is suspended."""
    return time.clock_gettime(_UPTIME_CLOCK)
