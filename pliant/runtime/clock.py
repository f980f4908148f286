"""The clocks of the machine: the only module that reads them. docs/decisions/clocks.md says which measures what."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

MIN_CLOCK_JUMP_SECONDS = 1.0
"""Smaller differences between two clocks are read as none."""
_MAX_READING_SECONDS = 0.01
_MAX_REMEMBERED_JUMPS = 32


class Clock(Protocol):
    """The clocks of one machine; tests inject their own."""

    @property
    def boot_id(self) -> str:
        """The boot to which `monotonic` and `uptime` belong; empty if it is unknown."""

    def now(self) -> datetime:
        """Return the time of day in UTC. It jumps when somebody sets it."""

    def monotonic(self) -> float:
        """Return the seconds that the machine has been awake since boot; asyncio's timers use this clock."""

    def uptime(self) -> float:
        """Return the seconds since boot, including those during which the machine slept."""


class SystemClock:
    @property
    def boot_id(self) -> str:
        return _BOOT_ID

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def uptime(self) -> float:
        return seconds_since_boot()


# CLOCK_BOOTTIME exists on Linux only; elsewhere the monotonic clock keeps counting while the machine sleeps.
_UPTIME_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """Return the seconds since boot, including time during which the process or the machine was suspended."""
    return time.clock_gettime(_UPTIME_CLOCK)


def read_wall_offset(clock: Clock) -> float:
    """Return the time of day less `monotonic`, in seconds; it changes only if the clock is set or the machine sleeps.

    Both are read at the same moment, even if the process is stopped in between.
    """
    while True:
        before = clock.monotonic()
        offset = clock.now().timestamp() - before
        if clock.monotonic() - before < _MAX_READING_SECONDS:
            return offset


class ClockJumpDetector:
    """Notices that the time of day was set, or that the machine slept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = read_wall_offset(clock)
        """The offset of `read_wall_offset` since the last jump."""

    def read_jump(self) -> timedelta:
        """Return by how much the time of day has jumped since the last call; 0 if it has not."""
        jump = read_wall_offset(self._clock) - self.offset
        if abs(jump) < MIN_CLOCK_JUMP_SECONDS:
            return timedelta(0)
        self.offset += jump
        return timedelta(seconds=jump)


class _Jump(NamedTuple):
    before: datetime
    after: datetime


class JumpAwareClock:
    """A clock that remembers its jumps, by which the timestamps of other components are moved."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._detector = ClockJumpDetector(clock)
        self._jumps: deque[_Jump] = deque(maxlen=_MAX_REMEMBERED_JUMPS)

    @property
    def boot_id(self) -> str:
        return self._clock.boot_id

    def now(self) -> datetime:
        now = self._clock.now()
        if jump := self._detector.read_jump():
            self._jumps.append(_Jump(now - jump, now))
        return now

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def uptime(self) -> float:
        return self._clock.uptime()

    def wall_offset(self) -> float:
        """Return the offset of `read_wall_offset`; differences below MIN_CLOCK_JUMP_SECONDS do not change it."""
        self.now()
        return self._detector.offset

    @property
    def has_jumped(self) -> bool:
        self.now()
        return bool(self._jumps)

    def to_present(self, at: datetime) -> datetime:
        """Return a timestamp that another component wrote, moved by the jumps that came after it.

        If the clock was set back, some times passed twice: a timestamp from such a time counts as the later one.
        """
        now = self.now()
        for before, after in self._jumps:
            # Kubernetes cuts timestamps to seconds, so one from right after the jump may be a second too early.
            is_older = at <= before if after > before else at < after - timedelta(seconds=1) or now < at <= before
            if is_older:
                at += after - before
        return at


def _read_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return ""


_BOOT_ID = _read_boot_id()
SYSTEM_CLOCK = SystemClock()
