"""Puts a name in front of every line, each in its own colour."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.cli.style import Style

MEMBER_COLOURS = (36, 35, 34, 33, 32, 96, 95, 94, 93, 92)


class Speakers:
    """Gives each speaker a colour, and all of them the same width."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._width = 0
        self._colours: dict[str, int] = {}

    def expect(self, names: Iterable[str]) -> None:
        """Make room for these names."""
        for name in names:
            self._width = max(self._width, len(name))
            self._colours.setdefault(name, MEMBER_COLOURS[len(self._colours) % len(MEMBER_COLOURS)])

    def line(self, name: str, text: str) -> str:
        """A line with its speaker before it."""
        self.expect((name,))
        return self._style.paint(self._colours[name], f"{name:<{self._width}} │ ") + text
