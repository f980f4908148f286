"""The log files and the termination message of one run of a container.

The node agent writes the log files; `agent.container.log_writer` describes their format.
"""

from __future__ import annotations

import io
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.kubelet.volumes.beneath import open_regular_file

_INDEX_ENTRY = struct.Struct("<QQ")
_READ_CHUNK_BYTES = 1 << 16
_NS_PER_SECOND = 1_000_000_000
_MAX_MESSAGE_BYTES = 4096
_MAX_MESSAGE_TAIL_BYTES = 2048


class LogPosition(NamedTuple):
    """A position in a log: the number of the file, and an offset in it."""

    file_number: int
    offset: int


class ContainerLog:
    """The log of one run; `path` is its first file, which may have been deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file_path(self, file_number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{file_number}") if file_number else self.path

    def file_numbers(self) -> list[int]:
        """Return the numbers of the existing files, oldest first."""
        prefix = f"{self.path.name}."
        suffixes = (path.name.removeprefix(prefix) for path in self.path.parent.glob(f"{prefix}*"))
        found = sorted(int(suffix) for suffix in suffixes if suffix.isdecimal())
        return [0, *found] if self.path.exists() else found

    def next_file_number(self, file_number: int) -> int | None:
        """Return the number of the next file, if there is one."""
        if self.file_path(file_number + 1).exists():
            return file_number + 1
        if self.file_path(file_number).exists():
            return None
        # The reader is so slow that the next file was deleted, too.
        return next((number for number in self.file_numbers() if number > file_number), None)

    def position_of_last_lines(self, count: int) -> LogPosition:
        """Return the position of the last `count` lines."""
        numbers = self.file_numbers()
        for number in reversed(numbers):
            offset, count = _find_last_lines(self.file_path(number), count)
            if not count:
                return LogPosition(number, offset)
        return LogPosition(numbers[0] if numbers else 0, 0)

    def position_since(self, timestamp_ns: int) -> LogPosition:
        """Return the position of the first line that was written at a time or later."""
        numbers = self.file_numbers()
        for number in numbers:
            offset = LogTimeIndex(self.file_path(number)).first_offset_since(timestamp_ns)
            if offset is not None:
                return LogPosition(number, _next_line_start(self.file_path(number), offset))
        last = numbers[-1] if numbers else 0
        return LogPosition(last, self.file_path(last).stat().st_size if numbers else 0)

    def read_tail(self, max_bytes: int) -> bytes:
        numbers = self.file_numbers()
        if not numbers:
            return b""
        with open_regular_file(self.file_path(numbers[-1])) as file:
            file.seek(max(os.fstat(file.fileno()).st_size - max_bytes, 0))
            return file.read(max_bytes)

    def delete_files(self) -> None:
        for path in self.path.parent.glob(f"{self.path.stem}.*"):
            path.unlink(missing_ok=True)


class LogTimeIndex:
    """The timestamp index of one log file, which may grow while it is read."""

    def __init__(self, log_path: Path) -> None:
        self._path = log_path.with_name(log_path.name + ".times")
        self._bytes_read = 0
        self._offsets: list[int] = []
        self._timestamps_ns: list[int] = []

    def written_at(self, offset: int) -> int:
        """Return the time at which an offset was written, in nanoseconds since the Unix epoch."""
        index = bisect_right(self._offsets, offset)
        if index == len(self._offsets):
            # The file may contain newer entries, but never entries between the known ones.
            self._load_new_entries()
            index = bisect_right(self._offsets, offset)
        return self._timestamps_ns[index - 1] if index else 0

    def first_offset_since(self, timestamp_ns: int) -> int | None:
        """Return the offset from which on the file was written at a time or later."""
        self._load_new_entries()
        index = bisect_left(self._timestamps_ns, timestamp_ns)
        return self._offsets[index] if index < len(self._offsets) else None

    def _load_new_entries(self) -> None:
        try:
            with open_regular_file(self._path) as file:
                file.seek(self._bytes_read)
                data = file.read()
        except FileNotFoundError:
            return
        for offset, timestamp_ns in _INDEX_ENTRY.iter_unpack(data[: len(data) - len(data) % _INDEX_ENTRY.size]):
            self._offsets.append(offset)
            self._timestamps_ns.append(timestamp_ns)
            self._bytes_read += _INDEX_ENTRY.size


class LineTimestamper:
    """Prefixes each line of a log that is read in chunks with its timestamp."""

    def __init__(self, log: ContainerLog) -> None:
        self._log = log
        self._file_number = -1
        self._time_index = LogTimeIndex(log.path)
        self._is_at_line_start = True

    def add_timestamps(self, position: LogPosition, chunk: bytes) -> bytes:
        """Return the chunk that begins at a position with timestamps."""
        if position.file_number != self._file_number:
            self._file_number = position.file_number
            self._time_index = LogTimeIndex(self._log.file_path(self._file_number))
        return b"".join(self._timestamped_lines(position.offset, chunk))

    def _timestamped_lines(self, offset: int, chunk: bytes) -> Iterator[bytes]:
        # Splits at line feeds only: progress bars contain carriage returns.
        for line in io.BytesIO(chunk):
            if self._is_at_line_start:
                yield _format_timestamp(self._time_index.written_at(offset))
            yield line
            self._is_at_line_start = line.endswith(b"\n")
            offset += len(line)


def _format_timestamp(timestamp_ns: int) -> bytes:
    seconds, nanoseconds = divmod(timestamp_ns, _NS_PER_SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z ".encode()


def _find_last_lines(path: Path, count: int) -> tuple[int, int]:
    """Return the offset of the last `count` lines of a file, and how many of them the file lacks."""
    with open_regular_file(path) as file:
        fd = file.fileno()
        end = position = os.fstat(fd).st_size
        if not count or not end:
            return end, count
        newlines_left = count + (os.pread(fd, 1, end - 1) == b"\n")
        while position > 0:
            size = min(_READ_CHUNK_BYTES, position)
            position -= size
            block = os.pread(fd, size, position)
            index = len(block)
            while (index := block.rfind(b"\n", 0, index)) >= 0:
                newlines_left -= 1
                if newlines_left == 0:
                    return position + index + 1, 0
        return 0, newlines_left - 1


def _next_line_start(path: Path, offset: int) -> int:
    """Return the offset of the first line that begins at an offset or after it."""
    with open_regular_file(path) as file:
        if offset == 0:
            return 0
        file.seek(offset - 1)
        file.readline()
        return file.tell()


def create_message_mount(container_spec: Mapping[str, Any], log_path: Path) -> Mount:
    """Create the empty message file of a run beside its log, and return its mount in the container."""
    path = log_path.with_suffix(".end")
    # An earlier run of the container may have put a link there.
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    os.fchmod(fd, 0o666)  # The container may run with any mapped user id.
    os.close(fd)
    target = str(container_spec.get("terminationMessagePath") or "/dev/termination-log")
    return Mount(target=target, source=str(path), readonly=False, pod_owned=False)


def read_termination_message(container_spec: Mapping[str, Any], log_path: Path, *, has_failed: bool) -> str:
    """Return the termination message of a container that has exited."""
    try:
        with open_regular_file(log_path.with_suffix(".end")) as file:
            message = file.read(_MAX_MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        message = ""
    falls_back_to_log = container_spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if not message and has_failed and falls_back_to_log:
        message = ContainerLog(log_path).read_tail(_MAX_MESSAGE_TAIL_BYTES).decode(errors="replace")
    return message
