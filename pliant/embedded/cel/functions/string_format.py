"""The function format of strings, as in `"%s has %d".format([name, count])`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pliant.embedded.cel.functions.conversions import to_string
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import EvaluationError, UInt, type_of_value

_MAX_PRECISION: Final = 1000
_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.(\d*))?(.?))", re.DOTALL)
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SCALARS: Final = ("int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration")
_PROBLEMS: Final = {
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
}


def format_string(template: str, arguments: list[Any]) -> str:
    """Return a template with its clauses, such as `%s` and `%.2f`, replaced by the arguments; raise EvaluationError."""
    used = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal used
        if match[1]:
            return "%"
        if not match[3]:
            raise EvaluationError("unexpected end of string")
        if used >= len(arguments):
            raise EvaluationError(f"index {used} out of range")
        used += 1
        precision = min(int(match[2][:9]), _MAX_PRECISION) if match[2] else 6
        try:
            return _format_clause(match[3], precision, arguments[used - 1])
        except EvaluationError as error:
            raise EvaluationError(f"error during formatting: {error}") from None

    return _CLAUSE.sub(replace, template)


def _format_clause(verb: str, precision: int, value: Any) -> str:
    is_integer = type(value) in (int, UInt)
    match verb:
        case "s":
            return format_value(value)
        case "d" if is_integer:
            return str(value)
        case "f" | "e" if type(value) is float:
            return _format_double(verb, precision, value)
        case "b" if is_integer or type(value) is bool:
            return f"{value:b}"
        case "o" if is_integer:
            return f"{value:o}"
        case "x" | "X" if is_integer:
            return f"{value:{verb}}"
        case "x" | "X" if isinstance(value, (str, bytes)):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if verb == "X" else text
    if verb.lower() in _PROBLEMS:
        raise EvaluationError(f"{_PROBLEMS[verb.lower()]}, was given {type_of_value(value).name}")
    raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _format_double(verb: str, precision: int, value: float) -> str:
    """Return a number as the English locale of Go writes it, which kube-apiserver uses."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if verb == "f":
        return f"{value:,.{precision}f}"
    mantissa, _, exponent = f"{value:.{precision}e}".partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"


def format_value(value: Any) -> str:
    """Return the text that `%s` stands for."""
    if value is None:
        return "null"
    if isinstance(value, Type):
        return value.name
    if isinstance(value, list):
        return f"[{', '.join(map(_format_member, value))}]"
    if isinstance(value, Mapping):
        entries = sorted(f"{_format_member(key)}:{_format_member(value[key])}" for key in value)
        return f"{{{', '.join(entries)}}}"
    if type_of_value(value).kind not in _SCALARS:
        allowed = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        raise EvaluationError(f"string clause can only be used on {allowed}, was given {type_of_value(value).name}")
    return to_string(value)


def _format_member(value: Any) -> str:
    """Return the text of an element of a list or map: a literal of the language."""
    match value:
        case str():
            return _quote(value)
        case bytes():
            return f"b{_quote(value.decode(errors='replace'))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else _quote(to_string(value))
        case Type():
            return f"type({value.name})"
    text = format_value(value)
    kind = type_of_value(value).kind
    return f'{kind}("{text}")' if kind in ("timestamp", "duration") else text


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
