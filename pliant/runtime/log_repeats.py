"""Holds back log records that repeat too often, and reports how many there were."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

MAX_RECORDS_PER_MINUTE = 60
MAX_TRACEBACKS_PER_MINUTE = 10
_PERIOD_SECONDS = 60.0
_KEY_CHARACTERS = 120

_RecordKey = tuple[str, int, str, type[BaseException] | None]


class _Period:
    """The records of one key since the first of them."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.passed = 0
        self.held_back = 0


class RepeatFilter(logging.Filter):
    """Lets a number of records of each message pass in a minute; fields and arguments do not distinguish messages.

    With the first record after that minute, `emit` gets one that counts the others. Debug records always pass.
    """

    def __init__(
        self, emit: Callable[[logging.LogRecord], object], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._emit = emit
        self._monotonic = monotonic
        self._periods: dict[_RecordKey, _Period] = {}
        self._next_check = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return True
        now = self._monotonic()
        if now >= self._next_check:
            self._next_check = now + 1.0
            self._end_periods(now)
        period = self._periods.setdefault(_record_key(record), _Period(now))
        if period.passed < (MAX_TRACEBACKS_PER_MINUTE if record.exc_info else MAX_RECORDS_PER_MINUTE):
            period.passed += 1
            return True
        period.held_back += 1
        return False

    def _end_periods(self, now: float) -> None:
        for key in [key for key, period in self._periods.items() if now - period.start >= _PERIOD_SECONDS]:
            period = self._periods.pop(key)
            if period.held_back:
                self._emit(_make_report(key, period.held_back))


def _record_key(record: logging.LogRecord) -> _RecordKey:
    # Some libraries put addresses and objects into the lines after the first.
    message = str(record.msg).partition("\n")[0][:_KEY_CHARACTERS]
    return record.name, record.levelno, message, record.exc_info[0] if record.exc_info else None


def _make_report(key: _RecordKey, count: int) -> logging.LogRecord:
    logger, level, message, error_type = key
    text = f"{message}: repeated {count:,} times in the last minute"
    fields: dict[str, object] = {"repeated": count} | ({"error": error_type.__name__} if error_type else {})
    return logging.makeLogRecord(
        {"name": logger, "levelno": level, "levelname": logging.getLevelName(level), "msg": text, **fields}
    )
