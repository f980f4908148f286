"""Write the output of a container to log files of limited size, each with an index of timestamps.

The first file has the requested name; the next ones append `.1`, `.2` and so on. No file is renamed and only the last
one grows, so readers need no lock: a file is complete when the next one exists. `FILE.times` is the index of FILE:
pairs of 64-bit integers, an offset and the Unix time in nanoseconds at which FILE was written from that offset on.
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
"""Nanoseconds between two index entries, so that many small writes do not make a large index."""

LogWriter = Generator[None, bytes, None]
"""Receives the output of a container in chunks."""


def create_log_writer(path: str, max_file_bytes: int = MAX_LOG_FILE_BYTES) -> LogWriter:
    """Write all chunks that are sent to this generator; drop what a full disk cannot take, so as never to block.

    A generator, because its state costs a shim the least memory.
    """
    directory, _, name = path.rpartition("/")
    # Opened once: the path may name another file after the change of the root directory.
    dir_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    number = indexed_at = 0
    log_fd, index_fd = _open_log_file(dir_fd, name)
    size = os.lseek(log_fd, 0, os.SEEK_END)
    while True:
        data, now = (yield), time.time_ns()
        try:
            while data:
                if size >= max_file_bytes:
                    number += 1
                    log_fd, index_fd, size = *_rotate_log(dir_fd, name, number, (log_fd, index_fd)), 0
                if now - indexed_at >= _INDEX_INTERVAL_NS or not size:
                    indexed_at = now
                    os.write(index_fd, _INDEX_ENTRY.pack(size, now))
                room = max_file_bytes - size
                # The part that still fits into this file, in whole lines if possible.
                end = len(data) if len(data) <= room else data.find(b"\n", room) + 1 or len(data)
                size += os.write(log_fd, data[:end])
                data = data[end:]
        except OSError:  # The disk is full.
            continue


def copy_to_log(pipe_fd: int, log_writer: LogWriter) -> bool:
    """Copy one chunk from a pipe to the log; return False at its end, or if there is no data yet."""
    try:
        data = os.read(pipe_fd, _READ_CHUNK_BYTES)
    except OSError:  # There is no data yet, or the terminal was closed.
        return False
    log_writer.send(data)
    return data != b""


def _rotate_log(dir_fd: int, name: str, file_number: int, full_files: tuple[int, int]) -> tuple[int, int]:
    """Open the next log file and its index, close the full ones, and delete the oldest if there are too many."""
    new_files = _open_log_file(dir_fd, f"{name}.{file_number}")
    # Truncate the full file to its own length: this change wakes the readers that follow it.
    os.ftruncate(full_files[0], os.lseek(full_files[0], 0, os.SEEK_END))
    for fd in full_files:
        os.close(fd)
    oldest = file_number - MAX_LOG_FILES
    if oldest >= 0:
        stale_name = f"{name}.{oldest}" if oldest else name
        for stale in (stale_name, stale_name + ".times"):
            with suppress(FileNotFoundError):
                os.unlink(stale, dir_fd=dir_fd)
    return new_files


def _open_log_file(dir_fd: int, name: str) -> tuple[int, int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    # The index first: a reader that finds a log file expects its index.
    index_fd = os.open(name + ".times", flags, 0o600, dir_fd=dir_fd)
    return os.open(name, flags, 0o600, dir_fd=dir_fd), index_fd
