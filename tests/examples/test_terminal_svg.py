"""Tests of the recorded run in the README and of its rendering."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.terminal import Run, Style, Terminal
from bench.terminal_svg import TerminalWindow, render_svg

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "docs" / "images" / "run.svg"
_SVG = "{http://www.w3.org/2000/svg}"


def extract_texts(text: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(text).iter(f"{_SVG}text")]


def test_the_readme_shows_the_recorded_run_and_how_it_is_made() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "](docs/images/run.svg)" in readme
    assert "scripts/record" in readme
    assert (ROOT / "scripts" / "record").exists()
    shown = " ".join(extract_texts(RECORDING.read_text()))
    for part in ("pliant run examples/quickstart/elastic.yaml", "pliant scale elastic 4", "kill -9"):
        assert part in shown
    assert "elastic succeeded" in shown
    assert "4 workers, 1 restart; step 200/200" in shown


def test_the_recording_respects_reduced_motion_and_is_small() -> None:
    text = RECORDING.read_text()
    assert "prefers-reduced-motion" in text
    assert len(text) < 100_000


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\r\ntwo", "one\ntwo\n"),
        ("a\r\nb\r\nc\r\nd", "b\nc\nd"),
        ("123456", "12345\n6\n"),
        ("old\r\x1b[2Knew", "new\n\n"),
        ("a\r\nb\x1b[1A\r\x1b[2Kc", "c\nb\n"),
        ("\x1b[?25l\x1b[?2004hx", "x\n\n"),
        ("abc\b\x1b[K", "ab\n\n"),
    ],
)
def test_a_terminal_shows_what_programs_write(written: str, shown: str) -> None:
    screen = Terminal(5, 3)
    for byte in written.encode():
        screen.feed(bytes([byte]))
    assert screen.text() == shown


def test_text_of_one_style_forms_a_run() -> None:
    screen = Terminal(20, 1)
    screen.feed("\x1b[1;32mok\x1b[0m so  █░".encode())
    assert screen.rows_shown() == (
        (Run(0, "ok", Style(colour=2, is_bold=True)), Run(3, "so", Style()), Run(7, "█░", Style())),
    )


def test_each_distinct_line_is_rendered_once() -> None:
    screen = Terminal(20, 2)
    frames = []
    for second, text in enumerate(("a <b> & c", "\r\nsecond line")):
        screen.feed(text.encode())
        frames.append((float(second), screen.rows_shown()))
    svg = render_svg([TerminalWindow(title="t", columns=20, rows=2, frames=frames)], 4)
    assert extract_texts(svg) == ["t", "a <b> & c", "second line"]
    assert "25.00%{transform:translateY(-38px)}" in svg
