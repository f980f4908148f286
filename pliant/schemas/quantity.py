"""Parses Kubernetes quantities such as "500m", "8Gi" and 2."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

Quantity = str | int | float

_QUANTITY_PATTERN: Final = re.compile(r"([+-]?[0-9.]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?\Z")
_DECIMAL_SUFFIXES: Final = {
    unit: Fraction(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
_BINARY_SUFFIXES: Final = {
    unit: Fraction(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_MAX_VALUE: Final = Fraction(2**63 - 1)
_NANOS_PER_UNIT: Final = 10**9
_MAX_EXPONENT: Final = 4000
"""A larger exponent exceeds the bounds anyway, and computing its power of ten could take hours."""
_MAX_DIGITS: Final = 4100
"""More digits before the point exceed the bounds with every exponent; more digits after it are rounded up."""


@lru_cache(maxsize=1024)
def parse_quantity(quantity: Quantity) -> Fraction:
    """Return the value of a quantity for calculations: rounded up, and limited to 63 bits as in Kubernetes.

    Raise ValueError if the quantity is invalid.
    """
    return _limit(parse_written_quantity(quantity))


def parse_written_quantity(quantity: Quantity) -> Fraction:
    """Return the value as Kubernetes stores it: only one with a binary suffix is limited to 63 bits."""
    match = _QUANTITY_PATTERN.match(str(quantity))
    if match is None:
        raise ValueError(f"{quantity!r} is not a quantity such as 500m or 8Gi")
    number, unit, exponent = match.groups()
    if exponent is not None:
        return _round_up(_parse_number(number) * Fraction(10) ** _parse_exponent(exponent))
    if unit in _BINARY_SUFFIXES:
        return _limit(_round_up(_parse_number(number) * _BINARY_SUFFIXES[unit]))
    return _round_up(_parse_number(number) * _DECIMAL_SUFFIXES[unit or ""])


def _parse_number(number: str) -> Fraction:
    """Return a decimal number of any length: Python converts at most 4,300 digits to an integer."""
    if len(number) <= _MAX_DIGITS:
        return Fraction(number)
    whole, point, decimals = number.partition(".")
    sign, digits = ("-" if whole.startswith("-") else ""), whole.lstrip("+-0") or "0"
    if len(digits) > _MAX_DIGITS:
        digits = "9" * _MAX_DIGITS
    if len(decimals) > _MAX_DIGITS:
        is_rounded = decimals[_MAX_DIGITS:].strip("0") != ""
        decimals = decimals[:_MAX_DIGITS] + ("1" if is_rounded else "")
    return Fraction(f"{sign}{digits}{point}{decimals}")


def _parse_exponent(exponent: str) -> int:
    digits = exponent.lstrip("+-0") or "0"
    power = _MAX_EXPONENT if len(digits) > len(str(_MAX_EXPONENT)) else min(int(digits), _MAX_EXPONENT)
    return -power if exponent.startswith("-") else power


def _round_up(value: Fraction) -> Fraction:
    """Round a value up to nano units, as Kubernetes does."""
    if _NANOS_PER_UNIT % value.denominator:
        return Fraction(math.ceil(value * _NANOS_PER_UNIT), _NANOS_PER_UNIT)
    return value


def _limit(value: Fraction) -> Fraction:
    return max(-_MAX_VALUE, min(value, _MAX_VALUE))
