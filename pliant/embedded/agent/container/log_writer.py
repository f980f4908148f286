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

MAX_LOG_FILE_BYTES = 10 << 20
MAX_LOG_FILES = 5
_INDEX_ENTRY = struct.Struct("<QQ")
_READ_CHUNK_BYTES = 1 << 16
_INDEX_INTERVAL_NS = 10_000_000
"""Nanoseconds between two marks, so that many small writes do not cost more marks than words."""

LogWriter = Generator[None, bytes, None]
"""Takes what a container writes, piece by piece."""


def write_log(path: str, max_file_bytes: int = MAX_LOG_FILE_BYTES) -> LogWriter:
    """Keep all that is sent to it; what no file has room for is dropped, for nobody should wait for a log.

    A generator, because what it remembers then costs a container's first process the least memory.
    """
    folder, _, name = path.rpartition("/")
    # Opened once: after the change of root directory the path may lead elsewhere.
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    number = marked = 0
    file, times = _open_log_file(place, name)
    size = os.lseek(file, 0, os.SEEK_END)
    while True:
        data, now = (yield), time.time_ns()
        try:
            while data:
                if size >= max_file_bytes:
                    number += 1
                    file, times, size = *_rotate_log(place, name, number, (file, times)), 0
                if now - marked >= _INDEX_INTERVAL_NS or not size:
                    marked = now
                    os.write(times, _INDEX_ENTRY.pack(size, now))
                room = max_file_bytes - size
                # What still goes into the present file, in whole lines where that can be.
                end = len(data) if len(data) <= room else data.find(b"\n", room) + 1 or len(data)
                size += os.write(file, data[:end])
                data = data[end:]
        except OSError:  # a full disk
            continue


def copy_to_log(pipe_fd: int, log_writer: LogWriter) -> bool:
    """Keep what has come from a pipe; false at the end of it, or when there is nothing more yet."""
    try:
        data = os.read(pipe_fd, _READ_CHUNK_BYTES)
    except OSError:  # nothing yet, or a terminal that nobody holds any longer
        return False
    log_writer.send(data)
    return data != b""


def _rotate_log(dir_fd: int, name: str, file_number: int, full_files: tuple[int, int]) -> tuple[int, int]:
    """The next file, with its times; the oldest goes when there are too many."""
    fresh = _open_log_file(dir_fd, f"{name}.{file_number}")
    # Cut at its own length: a change that wakes those who follow the full file.
    os.ftruncate(full_files[0], os.lseek(full_files[0], 0, os.SEEK_END))
    for each in full_files:
        os.close(each)
    oldest = file_number - MAX_LOG_FILES
    if oldest >= 0:
        gone = f"{name}.{oldest}" if oldest else name
        for stale in (gone, gone + ".times"):
            with suppress(FileNotFoundError):
                os.unlink(stale, dir_fd=dir_fd)
    return fresh


def _open_log_file(dir_fd: int, name: str) -> tuple[int, int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # The times first: whoever finds a file finds them, too.
    times = os.open(name + ".times", flags, 0o600, dir_fd=dir_fd)
    return os.open(name, flags, 0o600, dir_fd=dir_fd), times
