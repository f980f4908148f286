"""Tables and text of limited display width: East Asian characters take two columns, combining marks none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import TextIO
from unicodedata import category, east_asian_width

from pliant.cli.output.style import TerminalStyle


def display_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_char_width, text))


def pad_to_width(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def truncate_to_width(text: str, width: int) -> str:
    """Truncate a text to a display width, with `…` at the end."""
    if display_width(text) <= width:
        return text
    characters, room = [], width - 1
    for char in text:
        room -= _char_width(char)
        if room < 0:
            break
        characters.append(char)
    return "".join(characters) + "…" * (width > 0)


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


COLUMN_GAP = "   "
UNLIMITED_WIDTH = 1 << 30
MIN_COLUMN_WIDTH = 6  # a truncated column with less room is left out

PHASE_COLOURS = {
    **dict.fromkeys(("Running", "Succeed", "Succeeded"), "32"),
    **dict.fromkeys(("Failed", "NodeFail", "Timeout", "Preempted", "Invalid"), "31"),
    **dict.fromkeys(("Warning", "Pending", "Creating", "Restarting"), "33"),
    "Suspended": "36",
}


def terminal_width(stream: TextIO) -> int:
    """Return the number of columns of a terminal; 0 if there is no limit."""
    if not stream.isatty():
        return 0
    return shutil.get_terminal_size().columns if os.environ.get("COLUMNS") else _detect_columns(stream)


def _detect_columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def collapse_and_truncate(text: str, width: int) -> str:
    line = " ".join(text.split())
    return truncate_to_width(line, width) if width else line


class Table:
    """Aligned rows under titles; in narrow terminals the last column is truncated or left out."""

    def __init__(self, titles: Sequence[str], style: TerminalStyle, width: int = 0) -> None:
        self.titles = titles
        self._style = style
        self._width = width
        self._widths = [len(title) for title in titles]

    def render(self, rows: Iterable[Sequence[str]]) -> list[str]:
        shown = [list(row) for row in rows]
        self.widen_columns(shown)
        return [self.header(), *(self.render_row(row) for row in shown)]

    def widen_columns(self, rows: Iterable[Sequence[str]]) -> None:
        """Widen the columns for these rows."""
        for row in rows:
            self._widths = [max(width, display_width(cell)) for width, cell in zip(self._widths, row, strict=True)]

    def header(self) -> str:
        return self._style.bold(self._render_cells(self.titles))

    def render_row(self, cells: Sequence[str]) -> str:
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
            return COLUMN_GAP.join(parts).rstrip()
        return COLUMN_GAP.join([*parts, collapse_and_truncate(last, room)]).rstrip()

    def _render_cell(self, cell: str, width: int, is_coloured: bool) -> str:
        colour = PHASE_COLOURS.get(cell) if is_coloured else None
        padded = pad_to_width(cell, width)
        return self._style.paint(colour, padded) if colour else padded
