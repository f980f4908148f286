"""Connect a command's streams: output to a pipe or a terminal, input from nowhere, a pipe, or a terminal.

Whoever feeds a terminal writes frames into the pipe named `input`: one letter, the length of what follows as a
16-bit number, and that. `i` is input; `s` is the size, columns and rows as 16-bit numbers. Without a terminal the
command itself reads from the pipe.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from contextlib import suppress

_HEAD = struct.Struct(">cH")
_SIZE = struct.Struct(">HH")
_MOST = 1 << 12


class Wiring:
    """Our ends of the streams of a command; the other ends are taken up by the process that becomes it."""

    def __init__(self, source: str | None, *, has_terminal: bool) -> None:
        self._source = source or os.devnull
        self._has_terminal = has_terminal
        self.written, self._inner = os.openpty() if has_terminal else os.pipe()
        """Where its output arrives."""
        self.frames = os.open(self._source, os.O_RDONLY) if has_terminal else -1
        """Where input and sizes for its terminal arrive; -1 where nobody sends them."""
        self._heard = b""
        os.set_blocking(self.written, False)

    def take_up(self) -> None:
        """Put the inner ends in place of this process's standard streams."""
        read = self._inner if self._has_terminal else os.open(self._source, os.O_RDONLY)
        for target, descriptor in enumerate((read, self._inner, self._inner)):
            os.dup2(descriptor, target)

    def let_go(self) -> None:
        """Leave the inner ends to the command, so that their end is seen."""
        os.close(self._inner)

    def feed(self) -> bool:
        """Pass on what has come for the terminal; false at the end of it."""
        data = os.read(self.frames, _MOST)
        self._heard += data
        while len(self._heard) >= _HEAD.size:
            letter, length = _HEAD.unpack_from(self._heard)
            content = self._heard[_HEAD.size : _HEAD.size + length]
            if len(content) < length:
                break
            self._heard = self._heard[_HEAD.size + length :]
            self._obey(letter, content)
        return bool(data)

    def _obey(self, letter: bytes, content: bytes) -> None:
        # A terminal whose input is full drops the rest, as terminals do.
        with suppress(OSError, struct.error):
            if letter == b"i":
                os.write(self.written, content)
            elif letter == b"s":
                columns, rows = _SIZE.unpack(content)
                fcntl.ioctl(self.written, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
