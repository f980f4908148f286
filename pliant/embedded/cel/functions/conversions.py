"""Conversions between types, and the size of values."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.functions.operators import require_duration, require_timestamp
from pliant.embedded.cel.functions.time import format_timestamp, parse_duration, parse_timestamp
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import Duration, EvaluationError, Timestamp, UInt, type_of_value

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf(inity)?|nan)")
_TRUE: Final = ("1", "t", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "false", "FALSE", "False")


def _conversion_error(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def _parse_integer(text: str, kind: str, low: int, high: int) -> int:
    if not _INTEGER.fullmatch(text) or (low == 0 and text[0] in "+-"):
        raise _conversion_error(kind)
    value = int(text) if len(text) < 30 else high
    if not low <= value < high:
        raise _conversion_error(kind)
    return value


def _to_int(value: Any) -> int:
    if type(value) is str:
        return _parse_integer(value, "int", -(2**63), 2**63)
    if type(value) is Duration:
        return value.nanoseconds
    if type(value) is Timestamp:
        return value.nanoseconds // 10**9
    if type(value) is float and (not math.isfinite(value) or not -(2.0**63) < value < 2.0**63):
        raise EvaluationError("integer overflow")
    if int(value) >= 2**63:
        raise EvaluationError("integer overflow")
    return int(value)


def _to_uint(value: Any) -> UInt:
    if type(value) is str:
        return UInt(_parse_integer(value, "uint", 0, 2**64))
    if (type(value) is float and not math.isfinite(value)) or not 0 <= value < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def _to_double(value: Any) -> float:
    if type(value) is str and not _FLOAT.fullmatch(value):
        raise _conversion_error("double")
    return float(value)


def _to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text not in _FALSE:
        raise _conversion_error("bool")
    return False


def format_double(value: float) -> str:
    """Return a number as `string(value)` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    return (
        f"{mantissa.removesuffix('.0')}e{exponent[0] if exponent[0] in '+-' else '+'}{exponent.lstrip('+-').zfill(2)}"
    )


def format_duration(value: Duration) -> str:
    """Return a duration in seconds, such as `1.5s`."""
    seconds, fraction = divmod(abs(value.nanoseconds), 10**9)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{'-' if value.nanoseconds < 0 else ''}{seconds}{'.' + digits if digits else ''}s"


def to_string(value: Any) -> str:
    """Return the text of a scalar as `string(value)` writes it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case float():
            return format_double(value)
        case Duration():
            return format_duration(value)
        case Timestamp():
            return format_timestamp(value)
    return str(value)


def _to_duration(value: Any) -> Duration:
    if type(value) is str:
        return parse_duration(value)
    return require_duration(value if type(value) is int else value.nanoseconds)


def _to_timestamp(value: Any) -> Timestamp:
    if type(value) is str:
        return parse_timestamp(value)
    return require_timestamp(value * 10**9) if type(value) is int else value


def _type_of(value: Any) -> Type:
    return type_of_value(value) if not isinstance(value, Type) else types.TYPE


CONVERSIONS: Final = {"int": _to_int, "uint": _to_uint, "double": _to_double, "bool": _to_bool}
"""Conversions that fail for some texts, and that are tried with literals when an expression is created."""


def declare_conversions(library: Library) -> None:
    declare = library.declare
    conversions = (
        ("bool", bool, ("bool",)),
        ("bool", _to_bool, ("string",)),
        ("bytes", lambda value: value, ("bytes",)),
        ("double", _to_double, ("double", "int", "string", "uint")),
        ("duration", _to_duration, ("duration", "int", "string")),
        ("int", _to_int, ("int", "double", "duration", "string", "timestamp", "uint")),
        ("string", to_string, ("string", "bool", "double", "duration", "int", "timestamp", "uint")),
        ("timestamp", _to_timestamp, ("timestamp", "int", "string")),
        ("uint", _to_uint, ("uint", "double", "int", "string")),
    )
    for result, implementation, sources in conversions:
        for source in sources:
            declare(f"{result}({source}) -> {result}", implementation, f"{source}_to_{result}")
    declare("bytes(string) -> bytes", str.encode, "string_to_bytes")
    declare("string(bytes) -> string", to_string, "bytes_to_string")
    declare("dyn(A) -> dyn", lambda value: value, "to_dyn")
    declare("type(A) -> type<A>", _type_of, "type")
    for kind in ("bytes", "list<A>", "map<A, B>", "string"):
        declare(f"size({kind}) -> int", len)
        declare(f"({kind}).size() -> int", len)
