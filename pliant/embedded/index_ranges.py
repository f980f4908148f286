"""Sets of completion indexes as the text of a Job's status: `1,3-5,7`."""

from __future__ import annotations

from collections.abc import Iterable


def format_index_ranges(indexes: Iterable[int]) -> str:
    """Return indexes in ascending order, with three or more in a row as a range and two joined by a comma."""
    parts: list[str] = []
    ordered = sorted(indexes)
    position = 0
    while position < len(ordered):
        first = last = ordered[position]
        while position + 1 < len(ordered) and ordered[position + 1] == last + 1:
            position += 1
            last = ordered[position]
        parts.append(str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}")
        position += 1
    return ",".join(parts)


def parse_index_ranges(text: str, limit: int) -> set[int]:
    """Return the indexes of a text, which are below `limit` and ascend; raise ValueError if it is invalid."""
    indexes: set[int] = set()
    last = -1
    for part in text.split(",") if text else ():
        first_text, dash, last_text = part.partition("-")
        if not first_text.isdecimal() or (dash and not last_text.isdecimal()):
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        first, end = int(first_text), int(last_text if dash else first_text)
        if first <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        if dash and end <= first:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        if end >= limit:
            raise ValueError(f'too large index: "{end}"')
        indexes.update(range(first, end + 1))
        last = end
    return indexes
