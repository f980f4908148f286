"""Parses and formats durations as Go does: `90s`, `5m`, `1h30m`, `1.5h`, `500ms`."""

from __future__ import annotations

import re
from datetime import timedelta

from pliant.errors import UserError

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_NUMBER = r"\d+\.?\d*|\.\d+"
_DURATION_PART = re.compile(rf"({_NUMBER})(h|ms|[uµμ]s|ns|m|s)", re.ASCII)
_BARE_NUMBER = re.compile(_NUMBER, re.ASCII)
_MAX_DURATION = timedelta(days=365)


def parse_duration(text: str, *, allow_zero: bool = False) -> timedelta:
    """Parse a duration; a number without a unit is in seconds."""
    normalized = text.strip().lower()
    seconds = float(normalized) if _BARE_NUMBER.fullmatch(normalized) else None
    if seconds is None and normalized and not _DURATION_PART.sub("", normalized):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(normalized))
    duration = timedelta(seconds=seconds) if seconds is not None and seconds <= _MAX_DURATION.total_seconds() else None
    if duration is None or not (duration or allow_zero):
        raise UserError(f"`{text}` is not a duration; write 30s, 5m or 1h30m{', or 0' if allow_zero else ''}")
    return duration


def format_duration(duration: timedelta) -> str:
    """Format a duration briefly: `0.8s`, `12s`, `3m05s`, `2h10m`; one that is negative since a clock was set is 0."""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def format_age(age: timedelta) -> str:
    """Format an age in its largest unit, as kubectl does: `12s`, `5m`, `3h`, `8d`."""
    seconds = max(int(age.total_seconds()), 0)
    for unit_seconds, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds}{unit}"
    return f"{seconds}s"
