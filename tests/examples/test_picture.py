"""The picture in the README: of a real run, well drawn, and with an end."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.picture import Window, svg
from bench.terminal import Look, Run, Terminal

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "run.svg"
_SVG = "{http://www.w3.org/2000/svg}"


def words(text: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(text).iter(f"{_SVG}text")]


def test_the_readme_shows_the_recorded_run_and_how_it_is_made() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "](docs/images/run.svg)" in readme
    assert "scripts/record" in readme
    assert (ROOT / "scripts" / "record").exists()
    said = " ".join(words(PICTURE.read_text()))
    for part in ("pliant run examples/quickstart/elastic.yaml", "pliant scale elastic 4", "kill -9"):
        assert part in said
    assert "elastic succeeded" in said
    assert "4 workers, 1 restart; step 200/200" in said


def test_the_picture_moves_only_for_who_likes_that_and_is_not_large() -> None:
    text = PICTURE.read_text()
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


def test_colours_make_runs() -> None:
    screen = Terminal(20, 1)
    screen.feed("\x1b[1;32mok\x1b[0m so  █░".encode())
    assert screen.shown() == ((Run(0, "ok", Look(colour=2, is_bold=True)), Run(3, "so", Look()), Run(7, "█░", Look())),)


def test_a_film_is_drawn_with_each_line_once() -> None:
    screen = Terminal(20, 2)
    film = []
    for second, text in enumerate(("a <b> & c", "\r\nsecond line")):
        screen.feed(text.encode())
        film.append((float(second), screen.shown()))
    drawn = svg([Window(title="t", columns=20, rows=2, film=film)], 4)
    assert words(drawn) == ["t", "a <b> & c", "second line"]
    assert "25.00%{transform:translateY(-38px)}" in drawn
