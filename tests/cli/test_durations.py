"""Spans of time as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pliant.cli.durations import format_duration, parse_duration
from pliant.errors import UserError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("30", 30), ("30s", 30), ("1.5s", 1.5), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), (" 2M ", 120)),
        *(("1.5h", 5400), (".5s", 0.5), ("1.s", 1), ("1h0m0s", 3600), ("2500us", 0.0025), ("2500µs", 0.0025)),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["0", "0s", "0h0m", "0.0"])
def test_no_time_at_all_is_a_duration_where_that_has_a_meaning(text: str) -> None:
    assert parse_duration(text, allow_zero=True) == timedelta(0)
    with pytest.raises(UserError, match=r"write 30s, 5m or 1h30m$"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0s", "-5s", "5 minutes", "5x", "s", "1h-3m", "1e3", "99999999h", "nan", ".", ".s", "٣s", "٣", "1ns"],
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UserError, match="write 30s, 5m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-7200, "0.0s"), (0.04, "0.0s"), (1.26, "1.3s"), (9.96, "10s"), (59.7, "1m00s"), (185, "3m05s"), (7805, "2h10m")],
)
def test_durations_are_written_in_few_characters(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
