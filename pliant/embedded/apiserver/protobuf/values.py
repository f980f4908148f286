"""Values that JSON and protobuf represent differently: times, quantities, embedded objects and others."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from pliant.embedded.apiserver.protobuf.wire import (
    InvalidWireFormat,
    WireValue,
    as_bytes,
    as_double,
    as_signed_int,
    as_text,
    encode_bytes_field,
    encode_double_field,
    encode_int_field,
    iter_fields,
)
from pliant.kube.timestamps import format_timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 253_402_300_799  # the end of the year 9999
_GO_DURATION_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class ValueType(NamedTuple):
    """How to decode the value of a field, and how to encode the field with it."""

    decode: Callable[[WireValue], Any]
    encode: Callable[[int, Any], bytes]


def _decode_time(raw: WireValue) -> datetime | None:
    fields = dict(iter_fields(as_bytes(raw)))
    if not fields:
        return None
    seconds, nanoseconds = as_signed_int(fields.get(1, 0)), as_signed_int(fields.get(2, 0))
    if not -62_135_596_800 <= seconds <= _MAX_SECONDS or not 0 <= nanoseconds < 10**9:
        raise InvalidWireFormat("a time is out of range")
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def _decode_whole_seconds(raw: WireValue) -> str | None:
    time = _decode_time(raw)
    return format_timestamp(time) if time is not None else None


def _decode_microseconds(raw: WireValue) -> str | None:
    time = _decode_time(raw)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if time is not None else None


def _encode_time(number: int, text: str) -> bytes:
    delta = datetime.fromisoformat(text) - _EPOCH
    seconds, nanoseconds = delta.days * 86_400 + delta.seconds, delta.microseconds * 1000
    return encode_bytes_field(number, encode_int_field(1, seconds) + encode_int_field(2, nanoseconds))


def _decode_int_or_string(raw: WireValue) -> int | str:
    fields = dict(iter_fields(as_bytes(raw)))
    return as_text(fields.get(3, b"")) if fields.get(1) else as_signed_int(fields.get(2, 0))


def _encode_int_or_string(number: int, value: int | str) -> bytes:
    if isinstance(value, str):
        content = encode_int_field(1, 1) + encode_int_field(2, 0) + encode_bytes_field(3, value.encode())
    else:
        content = encode_int_field(1, 0) + encode_int_field(2, value) + encode_bytes_field(3, b"")
    return encode_bytes_field(number, content)


def _decode_quantity(raw: WireValue) -> str:
    return as_text(dict(iter_fields(as_bytes(raw))).get(1, b"")) or "0"


def _encode_quantity(number: int, value: Any) -> bytes:
    return encode_bytes_field(number, encode_bytes_field(1, str(value).encode()))


def _decode_json(raw: WireValue) -> Any:
    """Decode a message with JSON in its only field: RawExtension, FieldsV1 or JSON."""
    content = as_bytes(dict(iter_fields(as_bytes(raw))).get(1, b""))
    try:
        return msgspec.json.decode(content) if content else None
    except (msgspec.DecodeError, RecursionError):
        raise InvalidWireFormat("an embedded object is not JSON") from None


def _encode_json(number: int, value: Any) -> bytes:
    return encode_bytes_field(number, encode_bytes_field(1, msgspec.json.encode(value)))


def _decode_strings(raw: WireValue) -> list[str]:
    return [as_text(value) for number, value in iter_fields(as_bytes(raw)) if number == 1]


def _encode_strings(number: int, value: list[str]) -> bytes:
    return encode_bytes_field(number, b"".join(encode_bytes_field(1, each.encode()) for each in value))


def _decode_duration(raw: WireValue) -> str:
    nanoseconds = as_signed_int(dict(iter_fields(as_bytes(raw))).get(1, 0))
    return f"{nanoseconds / 1e9:g}s"


def _encode_duration(number: int, text: str) -> bytes:
    parts = re.findall(r"([\d.]+)([a-zµ]+)", text)
    seconds = sum(float(amount) * _GO_DURATION_UNITS[unit] for amount, unit in parts)
    return encode_bytes_field(number, encode_int_field(1, round(seconds * 1e9)))


VALUE_TYPES: dict[str, ValueType] = {
    "string": ValueType(as_text, lambda number, value: encode_bytes_field(number, value.encode())),
    "bool": ValueType(lambda raw: bool(as_signed_int(raw)), lambda number, value: encode_int_field(number, int(value))),
    "int": ValueType(as_signed_int, encode_int_field),
    "double": ValueType(as_double, encode_double_field),
    "bytes": ValueType(
        lambda raw: base64.b64encode(as_bytes(raw)).decode(),
        lambda number, value: encode_bytes_field(number, base64.b64decode(value)),
    ),
    "strings": ValueType(_decode_strings, _encode_strings),
    "Duration": ValueType(_decode_duration, _encode_duration),
    "FieldsV1": ValueType(_decode_json, _encode_json),
    "IntOrString": ValueType(_decode_int_or_string, _encode_int_or_string),
    "JSON": ValueType(_decode_json, _encode_json),
    "MicroTime": ValueType(_decode_microseconds, _encode_time),
    "Quantity": ValueType(_decode_quantity, _encode_quantity),
    "RawExtension": ValueType(_decode_json, _encode_json),
    "Time": ValueType(_decode_whole_seconds, _encode_time),
}
"""All types of fields that are not messages, by the names in the data file."""
