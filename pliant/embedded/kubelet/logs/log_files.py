"""The files that hold what one run of a container wrote, and where in them lines and moments are.

They are written by the node agent, which explains their form.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

_INDEX_ENTRY = struct.Struct("<QQ")
_READ_CHUNK_BYTES = 1 << 16
_NS_PER_SECOND = 1_000_000_000


class LogPosition(NamedTuple):
    """Somewhere in a log: the number of the file, and an offset in it."""

    file_number: int
    offset: int


class ContainerLog:
    """The log of one run; `path` is its first file, which may be gone already."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file_path(self, file_number: int) -> Path:
        """One of its files."""
        return self.path.with_name(f"{self.path.name}.{file_number}") if file_number else self.path

    def file_numbers(self) -> list[int]:
        """The files that are there, oldest first."""
        rest = (each.name.removeprefix(self.path.name + ".") for each in self.path.parent.glob(f"{self.path.name}.*"))
        found = sorted(int(each) for each in rest if each.isdecimal())
        return [0, *found] if self.path.exists() else found

    def next_file_number(self, file_number: int) -> int | None:
        """The file that follows one, if there is any."""
        if self.file_path(file_number + 1).exists():
            return file_number + 1
        if self.file_path(file_number).exists():
            return None
        # The reader was so slow that even the next one is gone.
        return next((each for each in self.file_numbers() if each > file_number), None)

    def position_of_last_lines(self, count: int) -> LogPosition:
        """Where the last so many lines begin."""
        numbers = self.file_numbers()
        for number in reversed(numbers):
            offset, count = _find_last_lines(self.file_path(number), count)
            if not count:
                return LogPosition(number, offset)
        return LogPosition(numbers[0] if numbers else 0, 0)

    def position_since(self, timestamp_ns: int) -> LogPosition:
        """Where the first line begins that was written at a moment, or later."""
        numbers = self.file_numbers()
        for number in numbers:
            offset = LogTimeIndex(self.file_path(number)).first_offset_since(timestamp_ns)
            if offset is not None:
                return LogPosition(number, _next_line_start(self.file_path(number), offset))
        last = numbers[-1] if numbers else 0
        return LogPosition(last, self.file_path(last).stat().st_size if numbers else 0)

    def read_tail(self, max_bytes: int) -> bytes:
        """The last bytes."""
        numbers = self.file_numbers()
        if not numbers:
            return b""
        with self.file_path(numbers[-1]).open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - max_bytes, 0))
            return file.read(max_bytes)

    def delete_files(self) -> None:
        """Take all its files away."""
        for each in self.path.parent.glob(f"{self.path.stem}.*"):
            each.unlink(missing_ok=True)


class LogTimeIndex:
    """When the parts of one file were written; more may be added while it is read."""

    def __init__(self, log_path: Path) -> None:
        self._path = log_path.with_name(log_path.name + ".times")
        self._bytes_read = 0
        self._offsets: list[int] = []
        self._timestamps_ns: list[int] = []

    def written_at(self, offset: int) -> int:
        """When what is at an offset was written, in nanoseconds since 1970."""
        place = bisect_right(self._offsets, offset)
        if place == len(self._offsets):
            # Perhaps there is a newer mark, but never one that is older than what is here.
            self._load_new_entries()
            place = bisect_right(self._offsets, offset)
        return self._timestamps_ns[place - 1] if place else 0

    def first_offset_since(self, timestamp_ns: int) -> int | None:
        """From which offset on the file was written at a moment, or later."""
        self._load_new_entries()
        place = bisect_left(self._timestamps_ns, timestamp_ns)
        return self._offsets[place] if place < len(self._offsets) else None

    def _load_new_entries(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._bytes_read)
                data = file.read()
        except FileNotFoundError:
            return
        for offset, moment in _INDEX_ENTRY.iter_unpack(data[: len(data) - len(data) % _INDEX_ENTRY.size]):
            self._offsets.append(offset)
            self._timestamps_ns.append(moment)
            self._bytes_read += _INDEX_ENTRY.size


class LineTimestamper:
    """Puts the time before every line of a log that is read piece by piece."""

    def __init__(self, log: ContainerLog) -> None:
        self._log = log
        self._file_number = -1
        self._time_index = LogTimeIndex(log.path)
        self._is_at_line_start = True

    def add_timestamps(self, position: LogPosition, chunk: bytes) -> bytes:
        """A piece that was read at a place, with times."""
        if position.file_number != self._file_number:
            self._file_number, self._time_index = (
                position.file_number,
                LogTimeIndex(self._log.file_path(position.file_number)),
            )
        return b"".join(self._timestamped_lines(position.offset, chunk))

    def _timestamped_lines(self, offset: int, chunk: bytes) -> Iterator[bytes]:
        for line in _split_lines(chunk):
            if self._is_at_line_start:
                yield _format_timestamp(self._time_index.written_at(offset))
            yield line
            self._is_at_line_start = line.endswith(b"\n")
            offset += len(line)


def _split_lines(chunk: bytes) -> Iterator[bytes]:
    """Lines as only line feeds part them: progress bars return to the start of theirs."""
    *whole, rest = chunk.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def _format_timestamp(timestamp_ns: int) -> bytes:
    seconds, rest = divmod(timestamp_ns, _NS_PER_SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


def _find_last_lines(path: Path, count: int) -> tuple[int, int]:
    """Where the last so many lines of a file begin, and how many of them it lacks."""
    with path.open("rb") as file:
        handle = file.fileno()
        end = position = os.fstat(handle).st_size
        if not count or not end:
            return end, count
        wanted = count + (os.pread(handle, 1, end - 1) == b"\n")
        while position > 0:
            size = min(_READ_CHUNK_BYTES, position)
            position -= size
            block = os.pread(handle, size, position)
            place = len(block)
            while (place := block.rfind(b"\n", 0, place)) >= 0:
                wanted -= 1
                if wanted == 0:
                    return position + place + 1, 0
        return 0, wanted - 1


def _next_line_start(path: Path, offset: int) -> int:
    """Where the first line begins at an offset or after it."""
    with path.open("rb") as file:
        if offset == 0:
            return 0
        file.seek(offset - 1)
        file.readline()
        return file.tell()
