"""The wire format of protobuf: numbered fields with varints, fixed-width numbers and bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
WireValue = int | bytes
"""A varint as an unsigned number; bytes for all other wire types."""

_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_SHIFT = 63


class InvalidWireFormat(ValueError):
    """The bytes are not a protobuf message, or a field has another wire type than its descriptor."""


def iter_fields(raw: bytes) -> Iterator[tuple[int, WireValue]]:
    """Yield the number and the value of each field of a message."""
    offset, end = 0, len(raw)
    while offset < end:
        tag, offset = decode_varint(raw, offset)
        wire_type = tag & 7
        if wire_type == VARINT:
            value, offset = decode_varint(raw, offset)
            yield tag >> 3, value
            continue
        if wire_type == LENGTH_DELIMITED:
            size, offset = decode_varint(raw, offset)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise InvalidWireFormat(f"wire type {wire_type}")
        if offset + size > end:
            raise InvalidWireFormat("the message is truncated")
        yield tag >> 3, raw[offset : offset + size]
        offset += size


def decode_varint(raw: bytes, offset: int) -> tuple[int, int]:
    """Return the unsigned number at an offset, and the offset behind it."""
    value = shift = 0
    try:
        while raw[offset] & 0x80:
            value |= (raw[offset] & 0x7F) << shift
            shift, offset = shift + 7, offset + 1
            if shift > _MAX_VARINT_SHIFT:
                raise InvalidWireFormat("a number has more than 64 bits")
        return value | raw[offset] << shift, offset + 1
    except IndexError:
        raise InvalidWireFormat("the message is truncated") from None


def as_bytes(value: WireValue) -> bytes:
    if isinstance(value, int):
        raise InvalidWireFormat("a number instead of bytes")
    return value


def as_text(value: WireValue) -> str:
    try:
        return as_bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidWireFormat("a string is not UTF-8") from None


def as_signed_int(value: WireValue) -> int:
    """Return a varint as an int32 or int64: both have 64 bits on the wire."""
    if isinstance(value, bytes):
        raise InvalidWireFormat("bytes instead of a number")
    return value - (1 << 64) if value >> 63 else value


def as_double(value: WireValue) -> float:
    raw = as_bytes(value)
    if len(raw) != _FIXED_SIZES[FIXED64]:
        raise InvalidWireFormat("a double does not have 8 bytes")
    return float(struct.unpack("<d", raw)[0])


def encode_varint(value: int) -> bytes:
    """Encode a number; a negative one as its two's complement in 64 bits."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_int_field(number: int, value: int) -> bytes:
    return encode_varint(number << 3 | VARINT) + encode_varint(value)


def encode_bytes_field(number: int, value: bytes) -> bytes:
    return encode_varint(number << 3 | LENGTH_DELIMITED) + encode_varint(len(value)) + value


def encode_double_field(number: int, value: float) -> bytes:
    return encode_varint(number << 3 | FIXED64) + struct.pack("<d", value)
