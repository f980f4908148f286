"""What calls cost at run time, as kube-apiserver charges them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import size_of

CallCost = Callable[[list[Any], Any], int]
_PER_CHARACTER: Final = 0.1
_PER_PATTERN_CHARACTER: Final = 0.25
_SCALAR_KINDS: Final = frozenset(("bool", "int", "uint", "double", "timestamp", "duration"))


def _traversal(size: float) -> int:
    return math.ceil(size * _PER_CHARACTER)


def _first(arguments: list[Any], result: Any) -> int:
    return _traversal(size_of(arguments[0]))


def _first_twice(arguments: list[Any], result: Any) -> int:
    return _traversal(size_of(arguments[0]) * 2)


def _smaller(arguments: list[Any], result: Any) -> int:
    return _traversal(min(size_of(arguments[0]), size_of(arguments[1])))


def _both(arguments: list[Any], result: Any) -> int:
    return _traversal(size_of(arguments[0]) + size_of(arguments[1]))


def _product(arguments: list[Any], result: Any) -> int:
    return _traversal(size_of(arguments[0])) * _traversal(size_of(arguments[1]))


def _pattern(arguments: list[Any], result: Any) -> int:
    return _traversal(1.0 + size_of(arguments[0])) * math.ceil(size_of(arguments[1]) * _PER_PATTERN_CHARACTER)


def _elements(arguments: list[Any], result: Any) -> int:
    return _cost_to_traverse(arguments[0])


def _cost_to_traverse(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return int(len(value) * _PER_CHARACTER)
    if isinstance(value, list):
        return sum(map(_cost_to_traverse, value))
    if isinstance(value, Mapping):
        return sum(_cost_to_traverse(key) + _cost_to_traverse(value[key]) for key in value)
    return 1


def _fixed(cost: int) -> CallCost:
    return lambda arguments, result: cost


def _in_list(arguments: list[Any], result: Any) -> int:
    return len(arguments[1])


def _join(arguments: list[Any], result: Any) -> int:
    return _traversal(size_of(result) * 2)


def _selector(arguments: list[Any], result: Any) -> int:
    length = size_of(arguments[1])
    return 10 + _traversal(length) + math.ceil(math.ceil(length * 0.5) * 50)


_COSTS_BY_FUNCTION: Final[dict[str, CallCost]] = {
    "check": _fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip"), _first),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_twice),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _pattern),
}
_COSTS_BY_OVERLOAD: Final[dict[str, CallCost]] = {
    "cidr_ip": _fixed(1),
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _first),
    **dict.fromkeys(("string_format", "strings_quote"), _first),
    "in_list": _in_list,
    **dict.fromkeys(("equals", "not_equals"), _smaller),
    **{f"{name}_{kind}": _smaller for name in ("less", "less_equals") for kind in ("string", "bytes")},
    **{f"{name}_{kind}": _smaller for name in ("greater", "greater_equals") for kind in ("string", "bytes")},
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "matches_string": _pattern,
    "contains_string": _product,
}


def find_call_cost(function: str, overload: str, operands: list[Type]) -> CallCost | None:
    """Return the cost of a call as a function of its arguments and result; None if it is always 1."""
    if overload in ("equals", "not_equals") and any(operand.kind in _SCALAR_KINDS for operand in operands):
        return None
    return _COSTS_BY_OVERLOAD.get(overload) or _COSTS_BY_FUNCTION.get(function)
