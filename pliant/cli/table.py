"""Columns that fit the terminal; a pipe gets every character."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import TextIO

from pliant.cli.columns import columns_of, cut, padded
from pliant.cli.style import Style

GAP = "   "
FOREVER = 1 << 30
NARROWEST = 6
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


def width_of(stream: TextIO) -> int:
    """How many characters fit in a line; 0 where there is no limit."""
    if not stream.isatty():
        return 0
    return shutil.get_terminal_size().columns if os.environ.get("COLUMNS") else _columns(stream)


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def shortened(text: str, width: int) -> str:
    """A text of one line in so many columns at most; 0 is no limit."""
    line = " ".join(text.split())
    return cut(line, width) if width else line


class Table:
    """Rows under titles; when they do not fit the last column is shortened, and what has no room is left out."""

    def __init__(self, titles: Sequence[str], style: Style, width: int = 0) -> None:
        self.titles = titles
        self._style = style
        self._width = width
        self._widths = [len(title) for title in titles]

    def lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """The titles and the rows, aligned."""
        shown = [list(row) for row in rows]
        self.fit(shown)
        return [self.title(), *(self.row(row) for row in shown)]

    def fit(self, rows: Iterable[Sequence[str]]) -> None:
        """Make room for these rows."""
        for row in rows:
            self._widths = [max(width, columns_of(cell)) for width, cell in zip(self._widths, row, strict=True)]

    def title(self) -> str:
        """The line above the rows."""
        return self._style.bold(self._line(self.titles))

    def row(self, cells: Sequence[str]) -> str:
        """One row; words that are phases have their colour."""
        return self._line(cells, is_coloured=True)

    def _line(self, cells: Sequence[str], *, is_coloured: bool = False) -> str:
        *first, last = cells
        parts: list[str] = []
        room = self._width or FOREVER
        for cell, width in zip(first, self._widths, strict=False):
            if room < min(width, NARROWEST):
                return GAP.join(parts).rstrip()
            parts.append(self._cell(cut(cell, room), min(width, room), is_coloured))
            room -= width + len(GAP)
        if room < NARROWEST:
            return GAP.join(parts).rstrip()  # so little of it would tell nothing
        return GAP.join([*parts, shortened(last, room)]).rstrip()

    def _cell(self, cell: str, width: int, is_coloured: bool) -> str:
        colour = PHASE_COLOURS.get(cell) if is_coloured else None
        filled = padded(cell, width)
        return self._style.paint(colour, filled) if colour else filled
