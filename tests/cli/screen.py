"""What a person sees: a terminal small enough to test with."""

from __future__ import annotations

import re

_MOVE = re.compile(r"\x1b\[\??([\d;]*)([A-Za-z])")


def seen(written: str) -> list[str]:
    """The lines on the screen and above it after all this was written; colours are not kept."""
    rows, row, column, place = [""], 0, 0, 0
    while place < len(written):
        if move := _MOVE.match(written, place):
            place = move.end()
            if move[2] == "A":
                row -= int(move[1] or 1)
            elif move[2] == "K":
                rows[row] = ""
            continue
        char = written[place]
        place += 1
        if char == "\r":
            column = 0
        elif char == "\n":
            row += 1
            rows += [""] * (row == len(rows))
        else:
            line = rows[row].ljust(column)
            rows[row] = line[:column] + char + line[column + 1 :]
            column += 1
    return [line.rstrip() for line in rows if line.strip()]
