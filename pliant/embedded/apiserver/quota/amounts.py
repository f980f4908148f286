"""Amounts of resources: exact arithmetic on quantities, and the form in which Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pliant.schemas.quantity import Quantity, parse_quantity

_NANOS: Final = 10**9
_DECIMAL_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class QuantityFormat(Enum):
    """The form of a quantity, which sums of quantities keep."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class Amount(NamedTuple):
    """An amount in billionths of the unit of its resource."""

    nanos: int
    format: QuantityFormat = QuantityFormat.DECIMAL

    def __str__(self) -> str:
        if self.nanos == 0:
            return "0"
        whole, fraction = divmod(self.nanos, _NANOS)
        if self.format is QuantityFormat.BINARY and not fraction and whole >= 1024:
            return _shorten(whole, 1024, _BINARY_SUFFIXES)
        if self.format is QuantityFormat.EXPONENT:
            return _shorten(self.nanos, 1000, [f"e{power}" if power else "" for power in range(-9, 21, 3)])
        return _shorten(self.nanos, 1000, _DECIMAL_SUFFIXES)


def _shorten(number: int, base: int, suffixes: Iterable[str]) -> str:
    """Divide a number by its base as long as the result is an integer; return it with its suffix."""
    *smaller, largest = suffixes
    for suffix in smaller:
        quotient, remainder = divmod(number, base)
        if remainder:
            return f"{number}{suffix}"
        number = quotient
    return f"{number}{largest}"


Amounts = dict[str, Amount]
"""Amounts by the name of the resource."""
ZERO: Final = Amount(0)
ONE: Final = Amount(_NANOS)


def count_of(number: int) -> Amount:
    """Return the amount of a number of objects."""
    return Amount(number * _NANOS)


@lru_cache(maxsize=1024)
def parse_amount(quantity: Quantity) -> Amount:
    """Return a quantity as an amount; raise ValueError if it is invalid."""
    text = str(quantity)
    quantity_format = QuantityFormat.DECIMAL
    if text.endswith("i"):
        quantity_format = QuantityFormat.BINARY
    elif text[-1:].isdigit() and "e" in text.lower():
        quantity_format = QuantityFormat.EXPONENT
    return Amount(int(parse_quantity(quantity) * _NANOS), quantity_format)


def parse_amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_amount(value) for name, value in (quantities or {}).items()}


def format_amounts(amounts: Mapping[str, Amount]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def describe_amounts(amounts: Mapping[str, Amount]) -> str:
    """Return amounts as error messages show them: `pods=1,requests.cpu=500m`."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def add(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> Amounts:
    """Return the sums of all resources of both; a zero takes the format of the other amount."""
    sums = dict(first)
    for name, amount in second.items():
        before = sums.get(name)
        if before is None or before.nanos == 0:
            sums[name] = amount
        else:
            sums[name] = Amount(before.nanos + amount.nanos, before.format)
    return sums


def subtract_to_zero(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> Amounts:
    """Return the differences, which are never negative."""
    names = dict.fromkeys([*first, *second])
    return {name: _difference(first.get(name, ZERO), second.get(name, ZERO)) for name in names}


def _difference(first: Amount, second: Amount) -> Amount:
    return Amount(max(first.nanos - second.nanos, 0), first.format)


def maximum(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> Amounts:
    """Return the larger amount of each resource."""
    result = dict(first)
    for name, amount in second.items():
        if name not in result or amount.nanos > result[name].nanos:
            result[name] = amount
    return result


def select(amounts: Mapping[str, Amount], names: Iterable[str]) -> Amounts:
    chosen = frozenset(names)
    return {name: amount for name, amount in amounts.items() if name in chosen}


def are_equal(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> bool:
    """Return whether the values are equal, in whatever format."""
    return first.keys() == second.keys() and all(first[name].nanos == second[name].nanos for name in first)


def exceeding(amounts: Mapping[str, Amount], limits: Mapping[str, Amount]) -> Iterator[str]:
    """Yield the resources whose amount is above its limit."""
    for name, limit in limits.items():
        if name in amounts and amounts[name].nanos > limit.nanos:
            yield name
