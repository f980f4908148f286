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
from collections.abc import Generator
from contextlib import suppress

FILE_SIZE = 10 << 20
FILES = 5
_MARK = struct.Struct("<QQ")
_CHUNK = 1 << 16
_APART = 10_000_000
"""Nanoseconds between two marks, so that many small writes do not cost more marks than words."""

Scribe = Generator[None, bytes, None]
"""Takes what a container writes, piece by piece."""


def scribe(path: str, file_size: int = FILE_SIZE) -> Scribe:
    """Keep all that is sent to it; what no file has room for is dropped, for nobody should wait for a log.

    A generator, because what it remembers then costs a container's first process the least memory.
    """
    folder, _, name = path.rpartition("/")
    # Opened once: after the change of root directory the path may lead elsewhere.
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    number = marked = 0
    file, times = _opened(place, name)
    size = os.lseek(file, 0, os.SEEK_END)
    while True:
        data, now = (yield), time.time_ns()
        try:
            while data:
                if size >= file_size:
                    number += 1
                    file, times, size = *_begun(place, name, number, (file, times)), 0
                if now - marked >= _APART or not size:
                    marked = now
                    os.write(times, _MARK.pack(size, now))
                room = file_size - size
                # What still goes into the present file, in whole lines where that can be.
                end = len(data) if len(data) <= room else data.find(b"\n", room) + 1 or len(data)
                size += os.write(file, data[:end])
                data = data[end:]
        except OSError:  # a full disk
            continue


def copied(pipe: int, output: Scribe) -> bool:
    """Keep what has come from a pipe; false at the end of it, or when there is nothing more yet."""
    try:
        data = os.read(pipe, _CHUNK)
    except OSError:  # nothing yet, or a terminal that nobody holds any longer
        return False
    output.send(data)
    return data != b""


def _begun(place: int, name: str, number: int, full: tuple[int, int]) -> tuple[int, int]:
    """The next file, with its times; the oldest goes when there are too many."""
    fresh = _opened(place, f"{name}.{number}")
    # Cut at its own length: a change that wakes those who follow the full file.
    os.ftruncate(full[0], os.lseek(full[0], 0, os.SEEK_END))
    for each in full:
        os.close(each)
    oldest = number - FILES
    if oldest >= 0:
        gone = f"{name}.{oldest}" if oldest else name
        for stale in (gone, gone + ".times"):
            with suppress(FileNotFoundError):
                os.unlink(stale, dir_fd=place)
    return fresh


def _opened(place: int, name: str) -> tuple[int, int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # The times first: whoever finds a file finds them, too.
    times = os.open(name + ".times", flags, 0o600, dir_fd=place)
    return os.open(name, flags, 0o600, dir_fd=place), times
