"""Keep what a container writes: files of limited size, and beside each the times at which it was written.

The first file has the name that was asked for, the next ones that name with `.1`, `.2` and so on. Nothing is ever
renamed and only the last file grows, so that readers need no lock: when there is a next file, one is complete.
Beside FILE lies `FILE.times`: pairs of 64-bit numbers, an offset and the nanosecond since 1970 at which FILE was
written from there on.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress

FILE_SIZE = 10 << 20
FILES = 5
_MARK = struct.Struct("<QQ")
_CHUNK = 1 << 16
_APART = 10_000_000
"""Nanoseconds between two marks, so that many small writes do not cost more marks than words."""


class Output:
    """Copies a pipe into files; what no file has room for is dropped, for nobody should wait for a log."""

    def __init__(self, path: str, file_size: int = FILE_SIZE) -> None:
        folder, _, self._name = path.rpartition("/")
        # Opened once: after the change of root directory the path may lead elsewhere.
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._file_size = file_size
        self._number = 0
        self._marked = 0
        self._files = self._opened()
        self._size = os.lseek(self._files[0], 0, os.SEEK_END)

    def take(self, pipe: int) -> bool:
        """Copy what has come; false at the end of it, or when there is nothing more yet."""
        try:
            data = os.read(pipe, _CHUNK)
        except OSError:  # nothing yet, or a terminal that nobody holds any longer
            return False
        try:
            self._write(data)
        except OSError:  # a full disk
            return True
        return data != b""

    def _write(self, data: bytes) -> None:
        while data:
            if self._size >= self._file_size:
                self._begin_next()
            self._mark()
            data, rest = self._split(data)
            self._size += os.write(self._files[0], data)
            data = rest

    def _split(self, data: bytes) -> tuple[bytes, bytes]:
        """What still goes into the present file, in whole lines where that can be, and what does not."""
        room = self._file_size - self._size
        if len(data) <= room:
            return data, b""
        end = data.find(b"\n", room) + 1 or len(data)
        return data[:end], data[end:]

    def _mark(self) -> None:
        now = time.time_ns()
        if now - self._marked >= _APART or not self._size:
            self._marked = now
            os.write(self._files[1], _MARK.pack(self._size, now))

    def _begin_next(self) -> None:
        full, times = self._files
        self._number += 1
        self._files = self._opened()
        # Cut at its own length: a change that wakes those who follow the full file.
        os.ftruncate(full, self._size)
        os.close(full)
        os.close(times)
        self._size = 0
        oldest = self._number - FILES
        if oldest >= 0:
            for name in (self._named(oldest), self._named(oldest) + ".times"):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._folder)

    def _named(self, number: int) -> str:
        return f"{self._name}.{number}" if number else self._name

    def _opened(self) -> tuple[int, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        name = self._named(self._number)
        # The times first: whoever finds a file finds them, too.
        times = os.open(name + ".times", flags, 0o600, dir_fd=self._folder)
        return os.open(name, flags, 0o600, dir_fd=self._folder), times
