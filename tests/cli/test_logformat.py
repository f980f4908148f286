"""What the operator writes about itself: records that a program can read to the last one."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.runtime.log_setup import JsonFormatter, configure_logging


def told(**fields: object) -> dict[str, Any]:
    """A record as a program reads it from one line."""
    line = JsonFormatter().format(logging.makeLogRecord({"msg": "pod deleted", "levelname": "INFO", **fields}))
    assert "\n" not in line
    read: dict[str, Any] = json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    return read


def test_a_record_is_one_line_with_its_fields() -> None:
    read = told(name="pliant.x", job="default/bert", rank=3, because="two\nlines")
    assert read["time"].endswith("+00:00")
    del read["time"]
    assert read == {
        "level": "info",
        "logger": "pliant.x",
        "message": "pod deleted",
        "job": "default/bert",
        "rank": 3,
        "because": "two\nlines",
    }


def test_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("no\nsuch thing")
    except ValueError:
        read = told(exc_info=sys.exc_info())
    assert read["traceback"].startswith("Traceback")
    assert read["traceback"].endswith("ValueError: no\nsuch thing")


def test_a_field_replaces_none_of_what_every_record_has() -> None:
    assert told(level="deep", time="never", logger="x")["level"] == "info"


def test_what_json_does_not_know_becomes_text() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert told(path=Path("/a"))["path"] == "/a"
    assert told(wait=float("inf"), rank=1) | {"time": ""} == told() | {"wait": "inf", "rank": "1", "time": ""}
    assert told(by={("a", 1): 2})["by"] == "{('a', 1): 2}"
    assert told(circle=circle)["circle"] == "[[...]]"


@pytest.fixture
def restored() -> Iterator[None]:
    root, ours, hook = logging.getLogger(), logging.getLogger("pliant"), sys.excepthook
    before = (root.handlers, root.level, ours.level)
    yield
    root.handlers = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    sys.excepthook = hook
    logging.captureWarnings(False)
    logging.raiseExceptions = True


@pytest.mark.parametrize(("verbosity", "level"), [(0, logging.INFO), (3, logging.INFO), (4, logging.DEBUG)])
def test_from_four_on_we_tell_more_and_libraries_do_not(restored: None, verbosity: int, level: int) -> None:
    configure_logging(verbosity=verbosity)
    assert logging.getLogger("pliant.runtime").getEffectiveLevel() == level
    assert logging.getLogger("asyncio").getEffectiveLevel() == logging.INFO


def test_warnings_become_records(restored: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "DeprecationWarning: old" in json.loads(capsys.readouterr().err)["message"]


def test_a_crash_becomes_a_record() -> None:
    program = "from pliant.runtime.log_setup import configure_logging; configure_logging('json'); 1 / 0"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    read = json.loads(ended.stderr)
    assert (ended.returncode, read["level"], read["message"]) == (1, "critical", "internal error")
    assert read["traceback"].endswith("ZeroDivisionError: division by zero")


def test_a_log_that_cannot_be_written_is_no_crash() -> None:
    program = (
        "import logging, pathlib; from pliant.runtime.log_setup import configure_logging;"
        "configure_logging(path=pathlib.Path('/dev/full')); logging.getLogger('pliant').warning('the disk is full')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Logging error" not in ended.stderr
