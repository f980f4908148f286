"""Formats Kubernetes quantities in their canonical form."""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from functools import lru_cache

from pliant.schemas.quantity import Quantity, parse_written_quantity

_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGEST_POWER = 6


@lru_cache(maxsize=1024)
def format_quantity(quantity: Quantity) -> str:
    """Return the canonical form: the largest suffix of the same family that leaves an integer.

    >>> format_quantity("1.5Gi"), format_quantity("1000m"), format_quantity(0.5)
    ('1536Mi', '1', '500m')
    """
    return format_amount(parse_written_quantity(quantity), suffix_family(quantity))


class SuffixFamily(Enum):
    """The family of the suffixes of a quantity, which its canonical form keeps."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


def suffix_family(quantity: Quantity) -> SuffixFamily:
    text = str(quantity)
    if text.endswith("i"):
        return SuffixFamily.BINARY
    return SuffixFamily.EXPONENT if re.search(r"[eE][+-]?\d+\Z", text) else SuffixFamily.DECIMAL


def format_amount(value: Fraction, family: SuffixFamily) -> str:
    """Return the canonical form of a value."""
    if value == 0:
        return "0"
    # Binary suffixes need at least 1024; smaller values are written as decimal ones.
    if family is SuffixFamily.BINARY and abs(value) >= 1024:
        return _format_binary(value)
    return _format_exponent(value) if family is SuffixFamily.EXPONENT else _format_decimal(value)


def _format_binary(value: Fraction) -> str:
    if value.denominator != 1:
        return _format_decimal(value)
    power, number = 0, value.numerator
    while number % 1024 == 0 and power < _LARGEST_POWER:
        power, number = power + 1, number // 1024
    return f"{number}{_BINARY_SUFFIXES[power]}"


def _format_decimal(value: Fraction) -> str:
    number, power = _scale(value, most=_LARGEST_POWER)
    return f"{number}{_DECIMAL_SUFFIXES[power + 3]}"


def _format_exponent(value: Fraction) -> str:
    number, power = _scale(value, most=None)
    return f"{number}e{power * 3}" if power else str(number)


def _scale(value: Fraction, *, most: int | None) -> tuple[int, int]:
    """Return the smallest integer and the power of a thousand of a value, at most this power."""
    number, power = (value * 10**9).numerator, -3  # quantities have at most nine decimals
    while number % 1000 == 0 and power != most:
        number, power = number // 1000, power + 1
    return number, power
