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

_MARK = struct.Struct("<QQ")
_CHUNK = 1 << 16
_SECOND = 1_000_000_000


class Place(NamedTuple):
    """Somewhere in a log: the number of the file, and an offset in it."""

    number: int
    offset: int


class RunLog:
    """The log of one run; `path` is its first file, which may be gone already."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, number: int) -> Path:
        """One of its files."""
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def numbers(self) -> list[int]:
        """The files that are there, oldest first."""
        rest = (
            each.name.removeprefix(self.path.name + ".") for each in self.path.parent.glob(f"{self.path.name}.*")
        )
        found = sorted(int(each) for each in rest if each.isdecimal())
        return [0, *found] if self.path.exists() else found

    def after(self, number: int) -> int | None:
        """The file that follows one, if there is any."""
        if self.file(number + 1).exists():
            return number + 1
        if self.file(number).exists():
            return None
        # The reader was so slow that even the next one is gone.
        return next((each for each in self.numbers() if each > number), None)

    def last_lines(self, count: int) -> Place:
        """Where the last so many lines begin."""
        numbers = self.numbers()
        for number in reversed(numbers):
            offset, count = _last_lines(self.file(number), count)
            if not count:
                return Place(number, offset)
        return Place(numbers[0] if numbers else 0, 0)

    def since(self, moment: int) -> Place:
        """Where the first line begins that was written at a moment, or later."""
        numbers = self.numbers()
        for number in numbers:
            offset = Times(self.file(number)).first_since(moment)
            if offset is not None:
                return Place(number, _line_start(self.file(number), offset))
        last = numbers[-1] if numbers else 0
        return Place(last, self.file(last).stat().st_size if numbers else 0)

    def tail(self, most: int) -> bytes:
        """The last bytes."""
        numbers = self.numbers()
        if not numbers:
            return b""
        with self.file(numbers[-1]).open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - most, 0))
            return file.read(most)

    def remove(self) -> None:
        """Take all its files away."""
        for each in self.path.parent.glob(f"{self.path.stem}.*"):
            each.unlink(missing_ok=True)


class Times:
    """When the parts of one file were written; more may be added while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".times")
        self._read = 0
        self._offsets: list[int] = []
        self._moments: list[int] = []

    def at(self, offset: int) -> int:
        """When what is at an offset was written, in nanoseconds since 1970."""
        place = bisect_right(self._offsets, offset)
        if place == len(self._offsets):
            # Perhaps there is a newer mark, but never one that is older than what is here.
            self._load()
            place = bisect_right(self._offsets, offset)
        return self._moments[place - 1] if place else 0

    def first_since(self, moment: int) -> int | None:
        """From which offset on the file was written at a moment, or later."""
        self._load()
        place = bisect_left(self._moments, moment)
        return self._offsets[place] if place < len(self._offsets) else None

    def _load(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        for offset, moment in _MARK.iter_unpack(data[: len(data) - len(data) % _MARK.size]):
            self._offsets.append(offset)
            self._moments.append(moment)
            self._read += _MARK.size


class Stamping:
    """Puts the time before every line of a log that is read piece by piece."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._number = -1
        self._times = Times(log.path)
        self._is_at_start = True

    def stamped(self, place: Place, chunk: bytes) -> bytes:
        """A piece that was read at a place, with times."""
        if place.number != self._number:
            self._number, self._times = place.number, Times(self._log.file(place.number))
        return b"".join(self._lines(place.offset, chunk))

    def _lines(self, offset: int, chunk: bytes) -> Iterator[bytes]:
        for line in _lines(chunk):
            if self._is_at_start:
                yield _written(self._times.at(offset))
            yield line
            self._is_at_start = line.endswith(b"\n")
            offset += len(line)


def _lines(chunk: bytes) -> Iterator[bytes]:
    """Lines as only line feeds part them: progress bars return to the start of theirs."""
    *whole, rest = chunk.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def _written(moment: int) -> bytes:
    seconds, rest = divmod(moment, _SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


def _last_lines(path: Path, count: int) -> tuple[int, int]:
    """Where the last so many lines of a file begin, and how many of them it lacks."""
    with path.open("rb") as file:
        handle = file.fileno()
        end = position = os.fstat(handle).st_size
        if not count or not end:
            return end, count
        wanted = count + (os.pread(handle, 1, end - 1) == b"\n")
        while position > 0:
            size = min(_CHUNK, position)
            position -= size
            block = os.pread(handle, size, position)
            place = len(block)
            while (place := block.rfind(b"\n", 0, place)) >= 0:
                wanted -= 1
                if wanted == 0:
                    return position + place + 1, 0
        return 0, wanted - 1


def _line_start(path: Path, offset: int) -> int:
    """Where the first line begins at an offset or after it."""
    with path.open("rb") as file:
        if offset == 0:
            return 0
        file.seek(offset - 1)
        file.readline()
        return file.tell()
