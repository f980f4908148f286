"""The clock: the only module that reads the time of day."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the current time; tests inject their own."""

    def now(self) -> datetime:
        """Return the current time in UTC."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


# CLOCK_BOOTTIME exists on Linux only; elsewhere the monotonic clock keeps counting while the machine sleeps.
_UPTIME_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """Return the seconds since boot, including time during which the process or the machine was suspended."""
    return time.clock_gettime(_UPTIME_CLOCK)
