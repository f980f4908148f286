"""Reads and writes spans of time the way people do: `90s`, `5m`, `1h30m`."""

from __future__ import annotations

import re
from datetime import timedelta

from pliant.errors import UserError

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_LONGEST = timedelta(days=365)


def parse_duration(text: str) -> timedelta:
    """The span a person wrote; a bare number is in seconds."""
    whole = text.strip().lower()
    seconds = float(whole) if re.fullmatch(r"\d+(\.\d+)?", whole) else None
    if seconds is None and whole and not _PART.sub("", whole):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(whole))
    if not seconds or seconds > _LONGEST.total_seconds():
        raise UserError(f"`{text}` is not a duration; write 30s, 5m or 1h30m")
    return timedelta(seconds=seconds)


def duration_text(span: timedelta) -> str:
    """A span in as few characters as say it: `0.8s`, `12s`, `3m05s`, `2h10m`."""
    seconds = span.total_seconds()
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
