"""Ages as kubectl shows them: two units at most, coarser as they grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 31_536_000


def human_duration(age: timedelta) -> str:
    """`90s`, `5m30s`, `42m`, `3h10m`, `30h`, `3d2h`, `45d`, `2y40d`."""
    seconds = int(age.total_seconds())
    if seconds < -1:
        return "<invalid>"
    for limit, unit, part in _SCALE:
        if seconds < limit:
            return _spelled(max(seconds, 0), unit, part)
    return _spelled(seconds, _YEAR, None)


def age(timestamp: Any, now: datetime) -> str:
    """How long ago a timestamp was; `<unknown>` without one, `<invalid>` for nonsense."""
    if not timestamp:
        return "<unknown>"
    moment = moment_of(timestamp)
    return human_duration(now - moment) if moment is not None else "<invalid>"


def moment_of(timestamp: Any) -> datetime | None:
    """A Kubernetes timestamp as a moment in UTC, or None when it is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_SCALE: tuple[tuple[int, int, int | None], ...] = (
    (2 * _MINUTE, 1, None),
    (10 * _MINUTE, _MINUTE, 1),
    (3 * _HOUR, _MINUTE, None),
    (8 * _HOUR, _HOUR, _MINUTE),
    (48 * _HOUR, _HOUR, None),
    (8 * _DAY, _DAY, _HOUR),
    (2 * _YEAR, _DAY, None),
    (8 * _YEAR, _YEAR, _DAY),
)
"""Below each limit: the unit to count in, and the finer one to add."""
_LETTERS = {1: "s", _MINUTE: "m", _HOUR: "h", _DAY: "d", _YEAR: "y"}


def _spelled(seconds: int, unit: int, part: int | None) -> str:
    whole, rest = divmod(seconds, unit)
    text = f"{whole}{_LETTERS[unit]}"
    if part is None or rest < part:
        return text
    return f"{text}{rest // part}{_LETTERS[part]}"
