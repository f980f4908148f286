"""Logging: a constant message with fields, written as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from pliant.runtime.log_repeats import RepeatFilter
from pliant.runtime.log_rotation import LogRotation, RotatedFileHandler

LOG_FORMATS = ("text", "json")
DEBUG_VERBOSITY = 4
"""The verbosity from which debug messages are logged, for example postponed reconciles and write conflicts."""
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def configure_logging(
    log_format: str = "text",
    *,
    path: Path | None = None,
    rotation: LogRotation | None = None,
    extra_handler: logging.Handler | None = None,
    verbosity: int = 0,
) -> None:
    """Log records of level info and above to a rotated file or to stderr, and to `extra_handler` if there is one."""
    handler = RotatedFileHandler(path, rotation or LogRotation()) if path else logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(RepeatFilter(handler.emit))
    root = logging.getLogger()
    root.handlers = [handler, extra_handler] if extra_handler else [handler]
    root.setLevel(logging.INFO)
    # On a full disk, every record that cannot be written would print a traceback.
    logging.raiseExceptions = False
    logging.getLogger("pliant").setLevel(logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.NOTSET)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if log_format == "json":
        # A program that parses JSON lines cannot parse what Python prints itself: log warnings and crashes as records.
        logging.captureWarnings(True)
        sys.excepthook = _log_crash


def _log_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("pliant").critical("internal error", exc_info=(kind, error, trace))


class ErrorNotifier(logging.Handler):
    """Reports each distinct error record once, in one line; the log has the details."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._notify = notify
        self._notified: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        text = f"! internal error: {record.getMessage()}" + (f": {cause!r}" if cause else "")
        if text not in self._notified:
            self._notified.add(text)
            self._notify(text)


class TextFormatter(logging.Formatter):
    """`12:30:01.250 info  pliant.runtime: pod deleted job=default/bert`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_format_value(value)}" for name, value in _extra_fields(record).items())
        start = f"{_record_time(record):%H:%M:%S.%f}"[:-3]
        line = f"{start} {record.levelname.lower():<7} {record.name}: {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _record_time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            entry["stack"] = self.formatStack(record.stack_info)
        fields = {name: value for name, value in _extra_fields(record).items() if name not in entry}
        try:
            return json.dumps(entry | fields, default=str, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError):  # a key that is not a string, an infinite number, a circular reference
            return json.dumps(entry | {name: str(value) for name, value in fields.items()}, ensure_ascii=False)


def _extra_fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}


def _record_time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _format_value(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(char in text for char in ' "=\n') else text
