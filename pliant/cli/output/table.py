"""How many columns of a terminal a text takes: characters of East Asia take two, accents none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import TextIO
from unicodedata import category, east_asian_width

from pliant.cli.output.style import TerminalStyle


def display_width(text: str) -> int:
    """The columns that a text of one line takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def pad_to_width(text: str, width: int) -> str:
    """The text, with spaces up to so many columns."""
    return text + " " * (width - display_width(text))


def truncate_to_width(text: str, width: int) -> str:
    """The text in so many columns at most; where something is missing it ends with `…`."""
    if display_width(text) <= width:
        return text
    kept, room = [], width - 1
    for char in text:
        room -= _char_width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + "…" * (width > 0)


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


COLUMN_GAP = "   "
UNLIMITED_WIDTH = 1 << 30
MIN_COLUMN_WIDTH = 6
"""Characters of which there must be room for a column that is shortened; or else it is left out."""

PHASE_COLOURS = {
    "Running": "32",
    "Succeed": "32",
    "Succeeded": "32",
    "Failed": "31",
    "NodeFail": "31",
    "Timeout": "31",
    "Preempted": "31",
    "Invalid": "31",
    "Warning": "33",
    "Pending": "33",
    "Creating": "33",
    "Restarting": "33",
    "Suspended": "36",
}


def terminal_width(stream: TextIO) -> int:
    """How many characters fit in a line; 0 where there is no limit."""
    if not stream.isatty():
        return 0
    return shutil.get_terminal_size().columns if os.environ.get("COLUMNS") else _detect_columns(stream)


def _detect_columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def fit_line(text: str, width: int) -> str:
    """A text of one line in so many columns at most; 0 is no limit."""
    line = " ".join(text.split())
    return truncate_to_width(line, width) if width else line


class Table:
    """Rows under titles; when they do not fit the last column is shortened, and what has no room is left out."""

    def __init__(self, titles: Sequence[str], style: TerminalStyle, width: int = 0) -> None:
        self.titles = titles
        self._style = style
        self._width = width
        self._widths = [len(title) for title in titles]

    def render(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """The titles and the rows, aligned."""
        shown = [list(row) for row in rows]
        self.widen_columns(shown)
        return [self.header(), *(self.render_row(row) for row in shown)]

    def widen_columns(self, rows: Iterable[Sequence[str]]) -> None:
        """Make room for these rows."""
        for row in rows:
            self._widths = [max(width, display_width(cell)) for width, cell in zip(self._widths, row, strict=True)]

    def header(self) -> str:
        """The line above the rows."""
        return self._style.bold(self._render_cells(self.titles))

    def render_row(self, cells: Sequence[str]) -> str:
        """One row; words that are phases have their colour."""
        return self._render_cells(cells, is_coloured=True)

    def _render_cells(self, cells: Sequence[str], *, is_coloured: bool = False) -> str:
        *first, last = cells
        parts: list[str] = []
        room = self._width or UNLIMITED_WIDTH
        for cell, width in zip(first, self._widths, strict=False):
            if room < min(width, MIN_COLUMN_WIDTH):
                return COLUMN_GAP.join(parts).rstrip()
            parts.append(self._render_cell(truncate_to_width(cell, room), min(width, room), is_coloured))
            room -= width + len(COLUMN_GAP)
        if room < MIN_COLUMN_WIDTH:
            return COLUMN_GAP.join(parts).rstrip()  # so little of it would tell nothing
        return COLUMN_GAP.join([*parts, fit_line(last, room)]).rstrip()

    def _render_cell(self, cell: str, width: int, is_coloured: bool) -> str:
        colour = PHASE_COLOURS.get(cell) if is_coloured else None
        filled = pad_to_width(cell, width)
        return self._style.paint(colour, filled) if colour else filled
