"""Turns what a container wrote into lines that are safe to show."""

from __future__ import annotations

import re

LONGEST = 2000
"""Characters of one line that are shown; the rest is cut."""
_BUFFERED = 4 * (LONGEST + 1)
"""Bytes kept of a line that has not ended: in any alphabet more than is shown of it."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def safe_text(text: str) -> str:
    """A line as a terminal may see it: colours dropped, control characters spelled out, the end cut if long."""
    if "\r" in text:
        # A progress bar paints over itself; what it painted last is what stays visible.
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    plain = _UNSAFE.sub(_spelled, _ESCAPES.sub("", text)).expandtabs(8)
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}… (cut)"


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class LineSplitter:
    """Cuts a stream of bytes into lines, without ever holding more of one than is shown."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this piece completes."""
        *whole, rest = chunk.split(b"\n")
        lines = [self._line(part) for part in whole]
        self._rest = self._joined(rest)
        return lines

    def close(self) -> list[str]:
        """The last line, if the stream ended within one."""
        return [self._line(b"")] if self._rest else []

    def _joined(self, part: bytes) -> bytes:
        return self._rest + part[: max(_BUFFERED - len(self._rest), 0)]

    def _line(self, part: bytes) -> str:
        whole, self._rest = self._joined(part), b""
        return safe_text(whole.decode("utf-8", "replace"))
