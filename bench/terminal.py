"""A terminal small enough to read: what programs write becomes rows of coloured text."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from dataclasses import dataclass, replace
from itertools import groupby

_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07")
_UNFINISHED = re.compile(r"\x1b(\[[?\d;]*)?\Z")


@dataclass(frozen=True, slots=True)
class Look:
    """How a character looks."""

    colour: int | None = None
    """One of sixteen; None is the ordinary one."""
    is_bold: bool = False
    is_faint: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbours on a row that look alike."""

    column: int
    text: str
    look: Look


Row = tuple[Run, ...]
BLANK = (" ", Look())


class Terminal:
    """A screen of so many columns and rows, which scrolls."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self._cells = [self._blank_row() for _ in range(rows)]
        self._row = self._column = 0
        self._look = Look()
        self._rest = ""
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        """Take what a program wrote."""
        text = self._rest + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        cut = unfinished.start() if unfinished else len(text)
        text, self._rest = text[:cut], text[cut:]
        place = 0
        while place < len(text):
            if control := _CONTROL.match(text, place):
                self._obey(control[1] or "", control[2] or "")
                place = control.end()
            else:
                self._put(text[place])
                place += 1

    def shown(self) -> tuple[Row, ...]:
        """What is on the screen."""
        return tuple(map(_runs, self._cells))

    def text(self) -> str:
        """The same without looks."""
        return "\n".join("".join(char for char, _ in row).rstrip() for row in self._cells)

    def _blank_row(self) -> list[tuple[str, Look]]:
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
            self._cells[self._row][self._column] = (char, self._look)
            self._column += 1

    def _feed_line(self) -> None:
        self._row += 1
        if self._row == self.rows:
            self._cells = [*self._cells[1:], self._blank_row()]
            self._row -= 1

    def _obey(self, numbers: str, letter: str) -> None:
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
                    self._look = _changed(self._look, int(part or 0))


def _changed(look: Look, number: int) -> Look:
    if number in range(30, 38):
        return replace(look, colour=number - 30)
    if number in range(90, 98):
        return replace(look, colour=number - 82)
    if number in (1, 2):
        return replace(look, is_bold=look.is_bold or number == 1, is_faint=look.is_faint or number == 2)
    return Look() if number == 0 else look


def _runs(cells: list[tuple[str, Look]]) -> Row:
    found: list[Run] = []
    for look, group in groupby(enumerate(cells), key=lambda each: each[1][1]):
        members = list(group)
        text = "".join(char for _, (char, _) in members)
        first = members[0][0]
        found += [Run(first + word.start(), word[0], look) for word in re.finditer(r"\S+(?: \S+)*", text)]
    return tuple(found)
