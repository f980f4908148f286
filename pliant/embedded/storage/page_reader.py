"""Reads rows of the table `objects` from the pages of a SQLite file whose tree of pages is damaged.

The format is described at https://www.sqlite.org/fileformat2.html. The table has no row ids, so its rows are the cells
of index pages. Pages of deleted rows are on the list of free pages, and are skipped if that list can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

PAGE_BYTES = 4096
_INTERIOR_INDEX_PAGE, _LEAF_INDEX_PAGE = 0x02, 0x0A
_MAX_LOCAL_BYTES = (PAGE_BYTES - 12) * 64 // 255 - 23
_MIN_LOCAL_BYTES = (PAGE_BYTES - 12) * 32 // 255 - 23
_COLUMNS = 4
_PAGE_NUMBER = struct.Struct(">I")

Row = tuple[str, str, str, bytes]


def read_page_rows(content: bytes) -> Iterator[Row]:
    """Yield the rows of all undamaged pages: resource, namespace, name and body."""
    free_pages = _list_free_pages(content)
    for start in range(0, len(content), PAGE_BYTES):
        page = content[start : start + PAGE_BYTES]
        if start // PAGE_BYTES + 1 in free_pages or page[0] not in (_INTERIOR_INDEX_PAGE, _LEAF_INDEX_PAGE):
            continue
        is_leaf = page[0] == _LEAF_INDEX_PAGE
        header_bytes, child_bytes = (8, 0) if is_leaf else (12, 4)
        for index in range(int.from_bytes(page[3:5], "big")):
            try:
                (cell,) = struct.unpack_from(">H", page, header_bytes + 2 * index)
                yield _read_row(_read_payload(content, page, cell + child_bytes))
            except (ValueError, IndexError, struct.error):  # This cell is damaged.
                continue


def _list_free_pages(content: bytes) -> set[int]:
    free: set[int] = set()
    try:
        (trunk,) = _PAGE_NUMBER.unpack_from(content, 32)
        while trunk and trunk not in free:
            free.add(trunk)
            start = (trunk - 1) * PAGE_BYTES
            trunk, count = struct.unpack_from(">II", content, start)
            free.update(struct.unpack_from(f">{min(count, PAGE_BYTES // 4 - 2)}I", content, start + 8))
    except struct.error:
        return free
    return free


def _read_payload(content: bytes, page: bytes, position: int) -> bytes:
    size, position = _read_varint(page, position)
    local = size
    if size > _MAX_LOCAL_BYTES:
        local = _MIN_LOCAL_BYTES + (size - _MIN_LOCAL_BYTES) % (PAGE_BYTES - 4)
        local = local if local <= _MAX_LOCAL_BYTES else _MIN_LOCAL_BYTES
    payload = page[position : position + local]
    if size > local:
        (overflow,) = _PAGE_NUMBER.unpack_from(page, position + local)
        parts = [payload]
        for _ in range((size - local + PAGE_BYTES - 5) // (PAGE_BYTES - 4)):
            start = (overflow - 1) * PAGE_BYTES
            (overflow,) = _PAGE_NUMBER.unpack_from(content, start)
            parts.append(content[start + 4 : start + PAGE_BYTES])
        payload = b"".join(parts)[:size]
    if len(payload) != size:
        raise ValueError("the row is truncated")
    return payload


def _read_row(payload: bytes) -> Row:
    header_bytes, position = _read_varint(payload, 0)
    types = []
    while position < header_bytes:
        serial_type, position = _read_varint(payload, position)
        types.append(serial_type)
    if len(types) != _COLUMNS or min(types) < 12 or [each % 2 for each in types] != [1, 1, 1, 0]:
        raise ValueError("the row is not of this table")
    values = []
    for serial_type in types:
        end = position + (serial_type - 12) // 2
        values.append(payload[position:end])
        position = end
    resource, namespace, name, body = values
    return resource.decode(), namespace.decode(), name.decode(), body


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and the position after it."""
    value = 0
    for count in range(8):
        byte = data[position + count]
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            return value, position + count + 1
    return value << 8 | data[position + 8], position + 9
