"""Sets of completion indexes as ranges, as the status of a Job has them: `1,3-5,7`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_DIGITS = 10


@dataclass(frozen=True, slots=True)
class IndexRanges:
    """A set of indexes whose size in memory does not depend on the length of its ranges."""

    ranges: tuple[tuple[int, int], ...] = ()
    """The first and last index of each range, in ascending order, with gaps between them."""

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexRanges:
        return cls(_merge((index, index) for index in indexes))

    @classmethod
    def parse(cls, text: str, limit: int) -> IndexRanges:
        """Parse indexes that ascend and are below `limit`; raise ValueError if the text is invalid."""
        ranges: list[tuple[int, int]] = []
        last = -1
        for part in text.split(",") if text else ():
            first_text, dash, last_text = part.partition("-")
            first = _parse_index(first_text, part)
            end = _parse_index(last_text, part) if dash else first
            if first <= last:
                raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
            if dash and end <= first:
                raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
            if end >= limit:
                raise ValueError(f'too large index: "{end}"')
            ranges.append((first, end))
            last = end
        return cls(_merge(ranges))

    @property
    def total(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        position = bisect_right(self.ranges, (index, index))
        is_first = position < len(self.ranges) and self.ranges[position][0] == index
        return is_first or (position > 0 and index <= self.ranges[position - 1][1])

    def __str__(self) -> str:
        """Return three or more indexes in a row as a range, and two joined by a comma."""
        return ",".join(_format_range(first, last) for first, last in self.ranges)

    def union(self, other: IndexRanges) -> IndexRanges:
        return IndexRanges(_merge((*self.ranges, *other.ranges)))

    def below(self, limit: int) -> IndexRanges:
        return IndexRanges(tuple((first, min(last, limit - 1)) for first, last in self.ranges if first < limit))

    def count_common(self, other: IndexRanges) -> int:
        """Return how many indexes both sets contain."""
        return self.total + other.total - self.union(other).total

    def first_absent(self, count: int, limit: int) -> list[int]:
        """Return the first indexes below `limit` that the set does not contain, at most `count`."""
        absent: list[int] = []
        candidate = 0
        for first, last in (*self.ranges, (limit, limit)):
            absent += range(candidate, min(first, limit, candidate + count - len(absent)))
            if len(absent) >= count:
                break
            candidate = last + 1
        return absent


def _parse_index(text: str, part: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        raise ValueError(f'cannot convert string to integer for index: "{part}"')
    return int(text)


def _merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _format_range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
