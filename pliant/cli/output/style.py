"""Terminal colours."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class TerminalStyle:
    has_colour: bool = False

    @classmethod
    def for_stream(cls, stream: TextIO) -> TerminalStyle:
        """Return a style with colours if the stream is a terminal and NO_COLOR is not set."""
        return cls(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def paint(self, ansi_code: int | str, text: str) -> str:
        return f"\x1b[{ansi_code}m{text}\x1b[0m" if self.has_colour else text

    def bold(self, text: str) -> str:
        return self.paint(1, text)

    def dim(self, text: str) -> str:
        return self.paint(2, text)

    def red(self, text: str) -> str:
        return self.paint("1;31", text)

    def green(self, text: str) -> str:
        return self.paint("1;32", text)

    def yellow(self, text: str) -> str:
        return self.paint("1;33", text)
