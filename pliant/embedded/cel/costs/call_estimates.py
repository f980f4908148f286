"""Estimates the cost of calls, and the size of their results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.costs.estimates import MAX, ONE, PER_CHARACTER, PER_PATTERN_CHARACTER, Range
from pliant.embedded.cel.types import Type


@dataclass(frozen=True, slots=True)
class Argument:
    """What is known of an argument or receiver."""

    type: Type
    size: Range
    element_size: Range
    """The size of the elements, if it is a list."""
    expression: ast.Expression


@dataclass(frozen=True, slots=True)
class Estimate:
    cost: Range
    size: Range | None = None


CallEstimate = Callable[[list[Argument]], Estimate]
"""The receiver of a member call is the first argument."""


def _fixed(cost: int) -> CallEstimate:
    return lambda arguments: Estimate(Range(cost, cost))


def _traversal(factor: float, *, keeps_size: bool = False) -> CallEstimate:
    def estimate(arguments: list[Argument]) -> Estimate:
        size = arguments[0].size
        return Estimate(size.scale(factor * PER_CHARACTER), size if keeps_size else None)

    return estimate


def _elements(arguments: list[Argument]) -> Estimate:
    target = arguments[0]
    if target.type.kind != "list":
        return Estimate(target.size.scale(PER_CHARACTER))
    per_element = ONE
    if target.type.params and target.type.params[0].kind in ("string", "bytes"):
        per_element = ONE + target.element_size.scale(PER_CHARACTER)
    return Estimate(target.size * per_element)


def _replace(arguments: list[Argument]) -> Estimate:
    size, old, new = (argument.size for argument in arguments[:3])
    if old.low == 0:
        high = Range(0, min(size.high + 1, MAX)) * new + Range(0, size.high)
    elif new.high <= old.low:
        high = Range(0, size.high)
    else:
        high = Range(0, math.ceil(size.high / old.low)) * new
    if old.high == 0:
        low = Range(size.low + 1, size.low + 1) * new + Range(size.low, size.low)
    elif old.high <= new.low:
        low = Range(size.low, size.low)
    else:
        low = Range(math.ceil(size.low / old.high), 0) * new
    return Estimate(size.scale(2 * PER_CHARACTER), Range(low.low, high.high))


def _split(arguments: list[Argument]) -> Estimate:
    size = arguments[0].size
    limit = arguments[2].expression if len(arguments) > 2 else None
    high = size.high
    if isinstance(limit, ast.Literal) and isinstance(limit.value, int):
        high = limit.value if limit.value >= 0 else MAX
    return Estimate(size.scale(2 * PER_CHARACTER), Range(0, high))


def _join(arguments: list[Argument]) -> Estimate:
    target = arguments[0]
    size = target.size * target.element_size
    if len(arguments) > 1:
        size += arguments[1].size * Range(max(target.size.low - 1, 0), max(target.size.high - 1, 0))
    return Estimate(size.scale(PER_CHARACTER), size)


def _pattern(arguments: list[Argument]) -> Range:
    text = (arguments[0].size + ONE).scale(PER_CHARACTER)
    return text * arguments[1].size.scale(PER_PATTERN_CHARACTER)


def _find(arguments: list[Argument]) -> Estimate:
    return Estimate(_pattern(arguments), Range(0, arguments[0].size.high))


def _contains_network(arguments: list[Argument], overload: str, *, is_cidr: bool) -> Estimate:
    size = Range(4, 16)
    cost = (size + size).scale(PER_CHARACTER)
    if is_cidr:
        cost += size.scale(PER_CHARACTER) + ONE
    if overload in ("cidr_contains_ip_string", "cidr_contains_cidr_string"):
        cost += arguments[1].size.scale(PER_CHARACTER)
    return Estimate(cost)


def _selector(arguments: list[Argument]) -> Estimate:
    length = arguments[1].size
    return Estimate(Range(10, 10) + length.scale(PER_CHARACTER) + length.scale(0.5).scale(50.0))


def _validate_format(arguments: list[Argument]) -> Estimate:
    return Estimate(arguments[1].size.scale(PER_CHARACTER).scale(128 * PER_PATTERN_CHARACTER))


_BY_FUNCTION: Final[dict[str, CallEstimate]] = {
    "check": _fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _traversal(1, keeps_size=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversal(1)),
    "ip.isCanonical": _traversal(2),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    "validate": _validate_format,
}


def _first(arguments: list[Argument]) -> Estimate:
    return Estimate(arguments[-1].size.scale(PER_CHARACTER))


def _contains(arguments: list[Argument]) -> Estimate:
    return Estimate(arguments[0].size.scale(PER_CHARACTER) * arguments[1].size.scale(PER_CHARACTER))


def _compare(arguments: list[Argument]) -> Estimate:
    high = min(arguments[0].size.high, arguments[1].size.high)
    return Estimate(Range(1 if high > 0 else 0, high).scale(PER_CHARACTER))


def _add(arguments: list[Argument]) -> Estimate:
    size = arguments[0].size + arguments[1].size
    return Estimate(size.scale(PER_CHARACTER), size)


def _to_bytes(arguments: list[Argument]) -> Estimate:
    size = arguments[0].size
    return Estimate(size.scale(PER_CHARACTER), Range(size.low, min(size.high * 4, MAX)))


def _from_bytes(arguments: list[Argument]) -> Estimate:
    size = arguments[0].size
    return Estimate(size.scale(PER_CHARACTER), Range(size.low // 4, size.high))


def _quote(arguments: list[Argument]) -> Estimate:
    size = arguments[0].size
    return Estimate(size.scale(PER_CHARACTER), Range(size.low + 2, min(size.high * 2 + 2, MAX)))


_BY_OVERLOAD: Final[dict[str, CallEstimate]] = {
    "string_format": _traversal(1),
    "strings_quote": _quote,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _from_bytes,
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _first),
    "in_list": lambda arguments: Estimate(arguments[1].size),
    "matches_string": lambda arguments: Estimate(_pattern(arguments)),
    "contains_string": _contains,
    "add_list": lambda arguments: Estimate(ONE, arguments[0].size + arguments[1].size),
    **dict.fromkeys(("add_string", "add_bytes"), _add),
    **dict.fromkeys(("equals", "not_equals"), _compare),
    **{f"{name}_{kind}": _compare for name in ("less", "less_equals") for kind in ("string", "bytes")},
    **{f"{name}_{kind}": _compare for name in ("greater", "greater_equals") for kind in ("string", "bytes")},
}
_UNIT_EQUALITY: Final = frozenset(("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"))


def estimate_call(function: str, overload: str, arguments: list[Argument]) -> Estimate:
    """Return the cost of a call without that of its arguments, and the size of its result if it is known."""
    if function in ("containsIP", "containsCIDR"):
        return _contains_network(arguments, overload, is_cidr=function == "containsCIDR")
    if function == "ip" and overload != "cidr_ip":
        return _traversal(1)(arguments)
    estimate = _BY_FUNCTION.get(function)
    if estimate is not None:
        return estimate(arguments)
    if overload == "equals" and arguments[0].type == arguments[1].type and arguments[0].type.name in _UNIT_EQUALITY:
        return Estimate(ONE)
    estimate = _BY_OVERLOAD.get(overload)
    return estimate(arguments) if estimate is not None else Estimate(ONE)
