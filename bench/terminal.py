"""A minimal terminal emulator: converts the output of programs to rows of coloured text."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from dataclasses import dataclass, replace
from itertools import groupby

_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07")
_INCOMPLETE = re.compile(r"\x1b(\[[?\d;]*)?\Z")


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a character."""

    colour: int | None = None
    """Index into the 16-colour palette; None is the default colour."""
    is_bold: bool = False
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent characters of a row with the same style."""

    column: int
    text: str
    style: Style


Row = tuple[Run, ...]
BLANK = (" ", Style())


class Terminal:
    """A scrolling screen of a fixed size."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self._cells = [self._blank_row() for _ in range(rows)]
        self._row = self._column = 0
        self._style = Style()
        self._incomplete = ""
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        """Process the output of a program."""
        text = self._incomplete + self._decoder.decode(data)
        incomplete = _INCOMPLETE.search(text)
        cut = incomplete.start() if incomplete else len(text)
        text, self._incomplete = text[:cut], text[cut:]
        position = 0
        while position < len(text):
            if control := _CONTROL.match(text, position):
                self._apply_control(control[1] or "", control[2] or "")
                position = control.end()
            else:
                self._put(text[position])
                position += 1

    def rows_shown(self) -> tuple[Row, ...]:
        """The rows on the screen, with styles."""
        return tuple(map(_split_runs, self._cells))

    def text(self) -> str:
        """The text on the screen, without styles."""
        return "\n".join("".join(char for char, _ in row).rstrip() for row in self._cells)

    def _blank_row(self) -> list[tuple[str, Style]]:
        return [BLANK] * self.columns

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._feed_line()
        elif char == "\b":
            self._column = max(self._column - 1, 0)
        elif char.isprintable():
            if self._column == self.columns:
                self._column = 0
                self._feed_line()
            self._cells[self._row][self._column] = (char, self._style)
            self._column += 1

    def _feed_line(self) -> None:
        self._row += 1
        if self._row == self.rows:
            self._cells = [*self._cells[1:], self._blank_row()]
            self._row -= 1

    def _apply_control(self, numbers: str, letter: str) -> None:
        number = int(numbers) if numbers.isdigit() else 0
        row = self._cells[self._row]
        match letter:
            case "A":
                self._row = max(self._row - (number or 1), 0)
            case "K" if number == 0:
                row[self._column :] = [BLANK] * (self.columns - self._column)
            case "K":
                row[:] = self._blank_row()
            case "m":
                for part in numbers.split(";"):
                    self._style = _apply_sgr(self._style, int(part or 0))


def _apply_sgr(style: Style, number: int) -> Style:
    if number in range(30, 38):
        return replace(style, colour=number - 30)
    if number in range(90, 98):
        return replace(style, colour=number - 82)
    if number in (1, 2):
        return replace(style, is_bold=style.is_bold or number == 1, is_faint=style.is_faint or number == 2)
    return Style() if number == 0 else style


def _split_runs(cells: list[tuple[str, Style]]) -> Row:
    runs: list[Run] = []
    for style, group in groupby(enumerate(cells), key=lambda cell: cell[1][1]):
        characters = list(group)
        text = "".join(char for _, (char, _) in characters)
        first = characters[0][0]
        runs += [Run(first + match.start(), match[0], style) for match in re.finditer(r"\S+(?: \S+)*", text)]
    return tuple(runs)
