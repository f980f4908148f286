"""Splits log streams into lines, makes them safe for a terminal, and prefixes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pliant.cli.output.style import TerminalStyle

MAX_LOG_LINE_LENGTH = 2000  # longer lines are cut
_MAX_BUFFERED_BYTES = 4 * (MAX_LOG_LINE_LENGTH + 1)  # enough for MAX_LINE_LENGTH characters of up to four bytes

_ANSI_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def sanitize_line(text: str) -> str:
    """Remove ANSI escapes, escape control characters, and cut long lines."""
    if "\r" in text:
        # Progress bars overwrite themselves; only the last part stays visible.
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    plain = _CONTROL_CHARACTERS.sub(_escape_character, _ANSI_ESCAPES.sub("", text)).expandtabs(8)
    return plain if len(plain) <= MAX_LOG_LINE_LENGTH else f"{plain[:MAX_LOG_LINE_LENGTH]}… (cut)"


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class LineSplitter:
    """Splits a byte stream into lines, with bounded memory."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that this chunk completes."""
        *whole, rest = chunk.split(b"\n")
        lines = [self._take_line(part) for part in whole]
        self._rest = self._append_bounded(rest)
        return lines

    def flush(self) -> list[str]:
        """Return the last line if the stream did not end with a newline."""
        return [self._take_line(b"")] if self._rest else []

    def _append_bounded(self, part: bytes) -> bytes:
        return self._rest + part[: max(_MAX_BUFFERED_BYTES - len(self._rest), 0)]

    def _take_line(self, part: bytes) -> str:
        whole, self._rest = self._append_bounded(part), b""
        return sanitize_line(whole.decode("utf-8", "replace"))


PREFIX_COLOURS = (36, 35, 34, 33, 32, 96, 95, 94, 93, 92)


class LogPrefixes:
    """Gives each log prefix a colour and pads all prefixes to the same width."""

    def __init__(self, style: TerminalStyle) -> None:
        self._style = style
        self._width = 0
        self._colours: dict[str, int] = {}

    def register(self, prefixes: Iterable[str]) -> None:
        for name in prefixes:
            self._width = max(self._width, len(name))
            self._colours.setdefault(name, PREFIX_COLOURS[len(self._colours) % len(PREFIX_COLOURS)])

    def prefix_line(self, prefix: str, line: str) -> str:
        self.register((prefix,))
        return self._style.paint(self._colours[prefix], f"{prefix:<{self._width}} │ ") + line
