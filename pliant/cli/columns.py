"""How many columns of a terminal a text takes: characters of East Asia take two, accents none."""

from __future__ import annotations

from unicodedata import category, east_asian_width


def columns_of(text: str) -> int:
    """The columns that a text of one line takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def padded(text: str, width: int) -> str:
    """The text, with spaces up to so many columns."""
    return text + " " * (width - columns_of(text))


def cut(text: str, width: int) -> str:
    """The text in so many columns at most; where something is missing it ends with `…`."""
    if columns_of(text) <= width:
        return text
    kept, room = [], width - 1
    for char in text:
        room -= _columns(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + "…" * (width > 0)


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
