"""Amounts of resources: exact arithmetic on quantities, and the form in which Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pliant.schemas.quantity import Quantity, parse_quantity
from pliant.schemas.quantity_format import SuffixFamily, format_amount, suffix_family

_NANOS: Final = 10**9


class Amount(NamedTuple):
    """An amount in billionths of the unit of its resource; sums of amounts keep the family of suffixes."""

    nanos: int
    family: SuffixFamily = SuffixFamily.DECIMAL

    def __str__(self) -> str:
        return format_amount(Fraction(self.nanos, _NANOS), self.family)


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
    return Amount(int(parse_quantity(quantity) * _NANOS), suffix_family(quantity))


def parse_amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_amount(value) for name, value in (quantities or {}).items()}


def format_amounts(amounts: Mapping[str, Amount]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def describe_amounts(amounts: Mapping[str, Amount]) -> str:
    """Return amounts as error messages show them: `pods=1,requests.cpu=500m`."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def add(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> Amounts:
    """Return the sums of all resources of both; a zero takes the family of the other amount."""
    sums = dict(first)
    for name, amount in second.items():
        before = sums.get(name)
        if before is None or before.nanos == 0:
            sums[name] = amount
        else:
            sums[name] = Amount(before.nanos + amount.nanos, before.family)
    return sums


def subtract_to_zero(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> Amounts:
    """Return the differences, which are never negative."""
    names = dict.fromkeys([*first, *second])
    return {name: _difference(first.get(name, ZERO), second.get(name, ZERO)) for name in names}


def _difference(first: Amount, second: Amount) -> Amount:
    return Amount(max(first.nanos - second.nanos, 0), first.family)


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
    """Return whether the values are equal, with whatever suffixes."""
    return first.keys() == second.keys() and all(first[name].nanos == second[name].nanos for name in first)


def exceeding(amounts: Mapping[str, Amount], limits: Mapping[str, Amount]) -> Iterator[str]:
    """Yield the resources whose amount is above its limit."""
    for name, limit in limits.items():
        if name in amounts and amounts[name].nanos > limit.nanos:
            yield name
