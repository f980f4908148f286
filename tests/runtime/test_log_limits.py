"""The log stays small: what repeats is counted, and full files are rotated."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.runtime import log_repeats
from pliant.runtime.log_repeats import MAX_RECORDS_PER_MINUTE, MAX_TRACEBACKS_PER_MINUTE, RepeatFilter
from pliant.runtime.log_rotation import LogRotation
from pliant.runtime.log_setup import configure_logging

log = logging.getLogger("pliant.test")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level, logging.raiseExceptions
    yield
    for handler in root.handlers:
        if handler not in before[0]:
            handler.close()
    root.handlers, root.level, logging.raiseExceptions = before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the filter of repeats sees; a test sets it."""
    now = [1000.0]
    defaults = (lambda: now[0],)
    monkeypatch.setattr(log_repeats.RepeatFilter.__init__, "__defaults__", defaults)
    return now


def fail(number: int) -> None:
    try:
        raise ValueError(f"request {number} is bad")
    except ValueError:
        log.exception("request failed", extra={"number": number})


def test_a_flood_of_tracebacks_is_counted_and_not_written(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "pliant.log"
    configure_logging(path=path)
    for number in range(5000):
        fail(number)
    assert path.read_text().count("Traceback") == MAX_TRACEBACKS_PER_MINUTE
    clock[0] += 61
    log.info("something else")
    assert "error   pliant.test: request failed: repeated 4,990 times in the last minute" in path.read_text()
    fail(1)
    assert path.read_text().count("Traceback") == MAX_TRACEBACKS_PER_MINUTE + 1


def test_repeated_records_are_counted_in_json_too(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "pliant.log"
    configure_logging("json", path=path)
    for number in range(1000):
        log.warning("cannot do it", extra={"number": number})
    clock[0] += 61
    log.warning("cannot do it", extra={"number": 1000})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == MAX_RECORDS_PER_MINUTE + 2
    assert lines[-2]["repeated"] == 1000 - MAX_RECORDS_PER_MINUTE
    assert lines[-1]["number"] == 1000


def test_other_messages_and_debug_records_are_not_held_back(clock: list[float]) -> None:
    repeats = RepeatFilter(lambda record: None)
    debug = logging.makeLogRecord({"msg": "detail", "levelno": logging.DEBUG})
    assert all(repeats.filter(debug) for _ in range(1000))
    info = [logging.makeLogRecord({"msg": f"message {number}", "levelno": logging.INFO}) for number in range(1000)]
    assert all(map(repeats.filter, info))


def test_a_full_log_is_rotated_and_old_files_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "pliant.log"
    os.close(os.open(path, os.O_CREAT, 0o600))
    stderr = os.open(path, os.O_WRONLY | os.O_APPEND)  # as the child processes of the cluster have it
    configure_logging(path=path, rotation=LogRotation(max_bytes=10_000, max_files=3))
    for number in range(2000):
        log.info(f"message {number} of many")
    os.write(stderr, b"a line of a child\n")
    os.close(stderr)
    files = {file.name: file for file in tmp_path.iterdir()}
    assert sorted(files) == ["pliant.log", "pliant.log.1", "pliant.log.2"]
    assert all(file.stat().st_size <= 10_100 for file in files.values())
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files.values())
    assert path.read_text().endswith("a line of a child\n")
    assert "message 1999 of many" in path.read_text() + files["pliant.log.1"].read_text()


def test_a_log_on_a_full_disk_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_copy(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy", fail_to_copy)
    path = tmp_path / "pliant.log"
    configure_logging(path=path, rotation=LogRotation(max_bytes=10_000))
    for number in range(2000):
        log.info(f"message {number} of many")
    assert path.stat().st_size <= 10_100
    assert list(tmp_path.iterdir()) == [path]
