"""Quantities of Kubernetes, such as `1500m` and `2Gi`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.values import EvaluationError, register_value_class
from pliant.schemas.quantity import parse_quantity

_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@dataclass(frozen=True, slots=True)
class QuantityValue:
    amount: Fraction


register_value_class(QuantityValue, types.QUANTITY)


def _parse(text: str) -> QuantityValue:
    try:
        return QuantityValue(parse_quantity(text))
    except (ValueError, TypeError, ArithmeticError):
        raise EvaluationError(_ERROR) from None


def _is_quantity(text: str) -> bool:
    try:
        _parse(text)
    except EvaluationError:
        return False
    return True


def _is_integer(quantity: QuantityValue) -> bool:
    return quantity.amount.denominator == 1 and -(2**63) <= quantity.amount < 2**63


def _as_integer(quantity: QuantityValue) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return int(quantity.amount)


def _plus(sign: int) -> Any:
    def add(quantity: QuantityValue, other: Any) -> QuantityValue:
        return QuantityValue(quantity.amount + sign * (other if isinstance(other, int) else other.amount))

    return add


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return (left.amount > right.amount) - (left.amount < right.amount)


def declare_quantity_functions(library: Library) -> None:
    declare = library.declare
    declare("quantity(string) -> Quantity", _parse)
    declare("isQuantity(string) -> bool", _is_quantity)
    declare("sign(Quantity) -> int", lambda quantity: (quantity.amount > 0) - (quantity.amount < 0))
    declare("(Quantity).isGreaterThan(Quantity) -> bool", lambda left, right: left.amount > right.amount)
    declare("(Quantity).isLessThan(Quantity) -> bool", lambda left, right: left.amount < right.amount)
    declare("(Quantity).compareTo(Quantity) -> int", _compare)
    declare("(Quantity).asApproximateFloat() -> double", lambda quantity: float(quantity.amount))
    declare("(Quantity).asInteger() -> int", _as_integer)
    declare("(Quantity).isInteger() -> bool", _is_integer)
    for name, sign in (("add", 1), ("sub", -1)):
        declare(f"(Quantity).{name}(Quantity) -> Quantity", _plus(sign))
        declare(f"(Quantity).{name}(int) -> Quantity", _plus(sign))
