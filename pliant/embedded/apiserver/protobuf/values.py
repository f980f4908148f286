"""Values that JSON and protobuf represent differently: times, quantities, embedded objects and others."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

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

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 253_402_300_799  # the end of the year 9999
_NANOSECONDS = {
    "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "µs": 1000, "μs": 1000, "ns": 1
}  # fmt: skip
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|μs|ns)")


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
    return f"{time.replace(tzinfo=None).isoformat(timespec='seconds')}Z" if time is not None else None


def _decode_microseconds(raw: WireValue) -> str | None:
    time = _decode_time(raw)
    # strftime does not pad the year.
    return f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z" if time is not None else None


def _encode_whole_seconds(number: int, text: str) -> bytes:
    return _encode_time(number, datetime.fromisoformat(text).replace(microsecond=0))


def _encode_microseconds(number: int, text: str) -> bytes:
    return _encode_time(number, datetime.fromisoformat(text))


def _encode_time(number: int, time: datetime) -> bytes:
    delta = time - _EPOCH
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
    return _format_duration(as_signed_int(dict(iter_fields(as_bytes(raw))).get(1, 0)))


def _format_duration(nanoseconds: int) -> str:
    """Return a duration as Go prints it, such as 1h30m0s, 1.5s or 20ms."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < _NANOSECONDS["s"]:
        unit = next((unit for unit in ("ms", "µs", "ns") if rest >= _NANOSECONDS[unit]), "s")
        return f"{sign}{_format_amount(rest, _NANOSECONDS[unit])}{unit}"
    hours, rest = divmod(rest, _NANOSECONDS["h"])
    minutes, rest = divmod(rest, _NANOSECONDS["m"])
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{whole}{_format_amount(rest, _NANOSECONDS['s'])}s"


def _format_amount(nanoseconds: int, unit: int) -> str:
    return format((Decimal(nanoseconds) / unit).normalize(), "f")


def _encode_duration(number: int, text: str) -> bytes:
    sign = -1 if text.startswith("-") else 1
    parts = _DURATION_PART.findall(text)
    if "".join(amount + unit for amount, unit in parts) != text.lstrip("+-") and text.lstrip("+-") != "0":
        raise ValueError(f"{text} is not a duration")
    nanoseconds = sum(int(Decimal(amount) * _NANOSECONDS[unit]) for amount, unit in parts)
    return encode_bytes_field(number, encode_int_field(1, sign * nanoseconds))


OMITTED_ZEROS: Final = frozenset({"string", "bool", "int", "double", "bytes", "strings"})
"""The types whose zero values `omitempty` omits in Go; those of structs it keeps."""

VALUE_TYPES: dict[str, ValueType] = {
    "string": ValueType(as_text, lambda number, value: encode_bytes_field(number, value.encode())),
    "bool": ValueType(lambda raw: bool(as_signed_int(raw)), lambda number, value: encode_int_field(number, int(value))),
    "int": ValueType(as_signed_int, encode_int_field),
    "double": ValueType(as_double, encode_double_field),
    "bytes": ValueType(
        lambda raw: base64.b64encode(as_bytes(raw)).decode(),
        lambda number, value: encode_bytes_field(number, base64.b64decode(value, validate=True)),
    ),
    "strings": ValueType(_decode_strings, _encode_strings),
    "Duration": ValueType(_decode_duration, _encode_duration),
    "FieldsV1": ValueType(_decode_json, _encode_json),
    "IntOrString": ValueType(_decode_int_or_string, _encode_int_or_string),
    "JSON": ValueType(_decode_json, _encode_json),
    "MicroTime": ValueType(_decode_microseconds, _encode_microseconds),
    "Quantity": ValueType(_decode_quantity, _encode_quantity),
    "RawExtension": ValueType(_decode_json, _encode_json),
    "Time": ValueType(_decode_whole_seconds, _encode_whole_seconds),
}
"""All types of fields that are not messages, by the names in the data file."""
