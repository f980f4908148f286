"""Whatever a container writes, a terminal stays unharmed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.cli.output.log_lines import MAX_LOG_LINE_LENGTH, LineSplitter, sanitize_line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("step 1 loss 0.5", "step 1 loss 0.5"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("bell\x07", "bell\\x07"),
        ("a\tb", "a       b"),
        ("10%\r50%\r100%\r", "100%"),
        ("\u202eevil", "\\u202eevil"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
        ("x" * (MAX_LOG_LINE_LENGTH + 1), "x" * MAX_LOG_LINE_LENGTH + "… (cut)"),
    ],
)
def test_a_line_is_made_safe(written: str, shown: str) -> None:
    assert sanitize_line(written) == shown


def test_lines_are_whole_however_the_bytes_arrive() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"fir") == []
    assert splitter.feed(b"st\nsec") == ["first"]
    assert splitter.feed(b"ond\n\nlast") == ["second", ""]
    assert splitter.flush() == ["last"]
    assert splitter.flush() == []


def test_a_line_without_end_costs_no_memory_and_is_cut() -> None:
    splitter = LineSplitter()
    for _ in range(1000):
        assert splitter.feed("ü".encode() * 1000) == []
    assert len(splitter._rest) <= 4 * (MAX_LOG_LINE_LENGTH + 1)
    [line] = splitter.feed(b"\nnext")
    assert line == "ü" * MAX_LOG_LINE_LENGTH + "… (cut)"
    assert splitter.flush() == ["next"]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_the_cut_of_the_stream_never_matters(data: bytes, cuts: list[int]) -> None:
    whole, pieces = LineSplitter(), LineSplitter()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    got = [line for start, end in itertools.pairwise(edges) for line in pieces.feed(data[start:end])]
    assert got + pieces.flush() == whole.feed(data) + whole.flush()


@given(st.text(max_size=200))
def test_nothing_shown_can_move_the_cursor(text: str) -> None:
    assert all(char.isprintable() or not char.isascii() for char in sanitize_line(text.replace("\n", "")))
