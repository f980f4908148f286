"""Spans of time as people write them in seconds."""

from __future__ import annotations

from datetime import timedelta

CENTURY = 100 * 365 * 24 * 3600
"""Seconds that nobody will ever wait, and that calendars still can add."""


def span(seconds: int | None) -> timedelta | None:
    """A span of time; whoever writes the largest number there is means that there is no end."""
    return None if seconds is None else timedelta(seconds=min(seconds, CENTURY))
