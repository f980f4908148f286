"""Turns what a container wrote into lines that are safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pliant.cli.output.style import TerminalStyle

MAX_LINE_LENGTH = 2000
"""Characters of one line that are shown; the rest is cut."""
_MAX_BUFFERED_BYTES = 4 * (MAX_LINE_LENGTH + 1)
"""Bytes kept of a line that has not ended: in any alphabet more than is shown of it."""

_ANSI_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def sanitize_line(text: str) -> str:
    """A line as a terminal may see it: colours dropped, control characters spelled out, the end cut if long."""
    if "\r" in text:
        # A progress bar paints over itself; what it painted last is what stays visible.
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    plain = _CONTROL_CHARACTERS.sub(_escape_character, _ANSI_ESCAPES.sub("", text)).expandtabs(8)
    return plain if len(plain) <= MAX_LINE_LENGTH else f"{plain[:MAX_LINE_LENGTH]}… (cut)"


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class LineSplitter:
    """Cuts a stream of bytes into lines, without ever holding more of one than is shown."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this piece completes."""
        *whole, rest = chunk.split(b"\n")
        lines = [self._take_line(part) for part in whole]
        self._rest = self._rest_with(rest)
        return lines

    def close(self) -> list[str]:
        """The last line, if the stream ended within one."""
        return [self._take_line(b"")] if self._rest else []

    def _rest_with(self, part: bytes) -> bytes:
        return self._rest + part[: max(_MAX_BUFFERED_BYTES - len(self._rest), 0)]

    def _take_line(self, part: bytes) -> str:
        whole, self._rest = self._rest_with(part), b""
        return sanitize_line(whole.decode("utf-8", "replace"))


PREFIX_COLOURS = (36, 35, 34, 33, 32, 96, 95, 94, 93, 92)


class LogPrefixes:
    """Gives each speaker a colour, and all of them the same width."""

    def __init__(self, style: TerminalStyle) -> None:
        self._style = style
        self._width = 0
        self._colours: dict[str, int] = {}

    def reserve(self, prefixes: Iterable[str]) -> None:
        """Make room for these names."""
        for name in prefixes:
            self._width = max(self._width, len(name))
            self._colours.setdefault(name, PREFIX_COLOURS[len(self._colours) % len(PREFIX_COLOURS)])

    def prefix_line(self, prefix: str, line: str) -> str:
        """A line with its speaker before it."""
        self.reserve((prefix,))
        return self._style.paint(self._colours[prefix], f"{prefix:<{self._width}} │ ") + line
