"""Amounts of resources as Kubernetes writes them: "500m", "8Gi", 2."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

Amount = str | int | float

_SHAPE: Final = re.compile(r"([+-]?[0-9.]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?\Z")
_DECIMAL: Final = {
    unit: Fraction(1000) ** power
    for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
_BINARY: Final = {
    unit: Fraction(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_MOST: Final = Fraction(2**63 - 1)
_LEAST: Final = 10**9
_FARTHEST: Final = 5000
"""An exponent beyond this leads beyond all bounds at any rate, and 10 to its power might take hours to reckon."""


@lru_cache(maxsize=1024)
def amount(text: Amount) -> Fraction:
    """The value of a quantity, within the bounds that Kubernetes has; ValueError for what is none."""
    match = _SHAPE.match(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not an amount such as 500m or 8Gi")
    number, unit, exponent = match.groups()
    if exponent is not None:
        power = max(-_FARTHEST, min(int(exponent), _FARTHEST))
        return _within_bounds(Fraction(number) * Fraction(10) ** power)
    return _within_bounds(Fraction(number) * (_BINARY.get(unit) or _DECIMAL[unit or ""]))


def _within_bounds(value: Fraction) -> Fraction:
    """As Kubernetes has it: what is too large is the largest there is, what is too fine is rounded up."""
    if _LEAST % value.denominator:
        value = Fraction(math.ceil(value * _LEAST), _LEAST)
    return max(-_MOST, min(value, _MOST))
