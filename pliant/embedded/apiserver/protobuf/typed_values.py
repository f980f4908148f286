"""Readers of JSON values as the Go types of kube-apiserver read them: types, ranges, quantities, times."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from pliant.schemas.quantity import parse_quantity
from pliant.schemas.quantity_format import format_quantity

UNSET: Final = object()
"""The result of reading a value that Go cannot tell from an absent one."""
_MAX_EXACT_INTEGER = 2**53
_LOWEST_WITH_EXPONENT = 1e21
Reader = Callable[[Any], Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_JSON_TYPE_NAMES: Final[dict[type, str]] = {
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
    type(None): "null",
}


class TypeMismatch(ValueError):
    """A value of the wrong JSON type, or one that its Go type cannot hold."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.segments: list[str] = []

    def below(self, segment: str) -> TypeMismatch:
        """Add a segment of the path, from the inside out."""
        self.segments.append(segment)
        return self

    def __str__(self) -> str:
        return f"{''.join(reversed(self.segments)).lstrip('.')}: {self.problem}"


def mismatch(value: Any, expected: str) -> TypeMismatch:
    return TypeMismatch(f"must be {expected}, not {_JSON_TYPE_NAMES.get(type(value), 'this')}")


def read_string(value: Any) -> Any:
    if type(value) is str:
        return value
    raise mismatch(value, "a string")


def read_bool(value: Any) -> Any:
    if type(value) is bool:
        return value
    raise mismatch(value, "a boolean")


def is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def to_float_digits(value: int) -> int | float:
    """Return an integer as Go writes it if it reads it as a float."""
    try:
        number = float(value)
        return int(Decimal(repr(number))) if abs(number) < _LOWEST_WITH_EXPONENT else number
    except OverflowError:
        raise TypeMismatch("must be a number of 64 bits") from None


class ConvertedInt(int):
    """A number of a strategic merge patch or an apply, which API servers convert to the type of its field."""

    def truncate(self, bits: int) -> int:
        value = int(self)
        if not is_int64(value):  # read as a float, which Go converts by way of the lowest number
            return 0 if bits < 64 else -(2**63)
        half = 1 << (bits - 1)
        return (value + half) % (2 * half) - half


def with_converted_numbers(value: Any) -> Any:
    """Return a copy in which numbers of more than 32 bits take the size of their field when they are read."""
    if isinstance(value, dict):
        return {name: with_converted_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [with_converted_numbers(member) for member in value]
    is_whole = type(value) is int or (type(value) is float and value.is_integer())
    return ConvertedInt(value) if is_whole and not -(2**31) <= value < 2**31 else value


def int_reader(bits: int) -> Reader:
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def read(value: Any) -> Any:
        if type(value) is ConvertedInt:
            return value.truncate(bits)
        if type(value) is not int:
            raise mismatch(value, "an integer")
        if not lowest <= value <= highest:
            raise TypeMismatch(f"must be an integer of {bits} bits, not {value}")
        return value

    return read


def read_double(value: Any) -> Any:
    if type(value) in (int, ConvertedInt):
        return to_float_digits(value) if abs(value) > _MAX_EXACT_INTEGER else int(value)
    if type(value) is float:
        return value
    raise mismatch(value, "a number")


def read_json(value: Any) -> Any:
    """Return a value of any type; Go reads its large integers as floats."""
    return _read_any(value, (int, ConvertedInt))


def read_raw(value: Any) -> Any:
    """Return a value whose text Go keeps; patches that convert numbers keep no text."""
    return _read_any(value, (ConvertedInt,))


def _read_any(value: Any, converted: tuple[type, ...]) -> Any:
    kind = type(value)
    if kind in converted:
        return int(value) if is_int64(value) else to_float_digits(value)
    if kind is dict:
        return {name: _read_any(member, converted) for name, member in value.items()}
    return [_read_any(member, converted) for member in value] if kind is list else value


def read_bytes(value: Any) -> Any:
    if type(value) is list:  # Go also accepts the bytes as numbers
        return _encode_numbers(value)
    if type(value) is not str:
        raise mismatch(value, "a string in base64")
    try:
        return base64.b64encode(base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)).decode()
    except (binascii.Error, ValueError):
        raise TypeMismatch("must be base64") from None


def _encode_numbers(numbers: list[Any]) -> str:
    numbers = [0 if number is None else number for number in numbers]
    for index, number in enumerate(numbers):
        if type(number) is not int or not 0 <= number < 256:
            raise mismatch(number, "a number from 0 to 255").below(f"[{index}]")
    return base64.b64encode(bytes(numbers)).decode()


def read_quantity(value: Any) -> Any:
    """Return a quantity in its canonical form, such as 1536Mi for 1.5Gi."""
    if value is None:
        return "0"
    if type(value) is ConvertedInt:
        value = int(value) if is_int64(value) else to_float_digits(value)
    if type(value) not in (str, int, float):
        raise mismatch(value, "a quantity such as 500m or 8Gi")
    if type(value) is str:
        value = value.strip()
    try:
        parse_quantity(value)
    except ValueError as error:
        raise TypeMismatch(str(error)) from None
    return format_quantity(value)


def read_time(value: Any) -> Any:
    if type(value) is not str or not _TIME.fullmatch(value):
        raise _not_a_time(value, "2006-01-02T15:04:05Z")
    return _parse_time(value).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_micro_time(value: Any) -> Any:
    if type(value) is not str or not _MICRO_TIME.fullmatch(value):
        raise _not_a_time(value, "2006-01-02T15:04:05.000000Z")
    return _parse_time(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_int_or_string(value: Any) -> Any:
    if type(value) is str:
        return value
    return int_reader(32)(int(value) if type(value) is ConvertedInt else value)


def _parse_time(value: str) -> datetime:
    fraction = re.search(r"\.\d+", value)
    if fraction is not None:  # Python reads at most six digits
        value = value.replace(fraction.group(), fraction.group()[:7].ljust(7, "0"))
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _not_a_time(value, "2006-01-02T15:04:05Z") from None


def _not_a_time(value: Any, example: str) -> TypeMismatch:
    return TypeMismatch(f"must be a time such as {example}, not {value!r:.60}")
