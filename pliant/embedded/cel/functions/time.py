"""Timestamps and durations: their texts, and their fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final

from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.functions.operators import require_duration, require_timestamp
from pliant.embedded.cel.values import Duration, EvaluationError, Timestamp

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION_PART: Final = re.compile(r"([0-9]{0,400})(?:\.([0-9]{0,400}))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?([Zz]|[+-]\d\d:?\d\d)?"
)
_NOT_A_TIMESTAMP: Final = "type conversion error from 'string' to 'google.protobuf.Timestamp'"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> Duration:
    """Return the duration of a Go text such as `1h30m`; raise EvaluationError."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    position, total = 0, 0
    while position < len(body):
        match = _DURATION_PART.match(body, position)
        if match is None or not (match[1] or match[2]):
            break
        fraction = int(match[2] or "0") * _UNITS[match[3]] // 10 ** len(match[2] or "0")
        total += int(match[1] or 0) * _UNITS[match[3]] + fraction
        position = match.end()
    if not body or position < len(body):
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return require_duration(-total if text[0] == "-" else total)


def parse_timestamp(text: str) -> Timestamp:
    """Return the timestamp of an RFC 3339 text; raise EvaluationError."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or match[8] is None:
        raise EvaluationError(_NOT_A_TIMESTAMP)
    return _to_timestamp(match)


def parse_date_or_timestamp(text: str) -> Timestamp:
    """Return the timestamp of a value whose schema has the format date or date-time."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += "T00:00:00Z"
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise EvaluationError(f'unable to parse "{text}" as a date-time')
    return _to_timestamp(match)


def _to_timestamp(match: re.Match[str]) -> Timestamp:
    try:
        year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=_parse_offset(match[8] or "Z"))
    except ValueError:
        raise EvaluationError(_NOT_A_TIMESTAMP) from None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return require_timestamp(seconds * 10**9 + int((match[7] or "0").ljust(9, "0")))


def _parse_offset(text: str) -> tzinfo:
    if text in ("Z", "z"):
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def format_timestamp(value: Timestamp) -> str:
    seconds, fraction = divmod(value.nanoseconds, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{moment.strftime('%Y').zfill(4)}{moment.strftime('-%m-%dT%H:%M:%S')}{'.' + digits if digits else ''}Z"


def _to_datetime(value: Timestamp, zone: str = "") -> datetime:
    moment = _EPOCH + timedelta(microseconds=value.nanoseconds // 1000)
    return moment.astimezone(_find_zone(zone)) if zone else moment


def _find_zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # takes 3 ms, and few rules need it

    if re.fullmatch(r"[+-]?\d\d:\d\d", name):
        return _parse_offset(name if name[0] in "+-" else f"+{name}")
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise EvaluationError(f"unknown time zone {name}") from None


_TIMESTAMP_FIELDS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_DURATION_UNITS: Final = {"getHours": "h", "getMinutes": "m", "getSeconds": "s", "getMilliseconds": "ms"}


def _timestamp_field(read: Callable[[datetime], int]) -> Callable[..., Any]:
    return lambda value, zone="": read(_to_datetime(value, zone))


def _duration_field(unit: int) -> Callable[[Duration], int]:
    return lambda value: abs(value.nanoseconds) // unit * (-1 if value.nanoseconds < 0 else 1)


def declare_time_functions(library: Library) -> None:
    for name, read in _TIMESTAMP_FIELDS.items():
        library.declare(f"(timestamp).{name}() -> int", _timestamp_field(read))
        library.declare(f"(timestamp).{name}(string) -> int", _timestamp_field(read))
    for name, unit in _DURATION_UNITS.items():
        library.declare(f"(duration).{name}() -> int", _duration_field(_UNITS[unit]))
