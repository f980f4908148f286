"""The only place that knows what time it is."""

from __future__ import annotations

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
