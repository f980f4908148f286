"""Amounts of resources as Kubernetes writes them: "500m", "8Gi", 2."""

from __future__ import annotations

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


@lru_cache(maxsize=1024)
def amount(text: Amount) -> Fraction:
    """The exact value of a quantity; ValueError for what is none."""
    match = _SHAPE.match(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not an amount such as 500m or 8Gi")
    number, unit, exponent = match.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * (_BINARY.get(unit) or _DECIMAL[unit or ""])
