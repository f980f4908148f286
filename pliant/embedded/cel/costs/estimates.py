"""Ranges of sizes and costs, with the arithmetic of kube-apiserver: results do not exceed 64 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MAX: Final = 2**64 - 1
PER_CHARACTER: Final = 0.1
PER_PATTERN_CHARACTER: Final = 0.25


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most that a size or a cost can be."""

    low: int
    high: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.low + other.low, MAX), min(self.high + other.high, MAX))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.low * other.low, MAX), min(self.high * other.high, MAX))

    def scale(self, factor: float) -> Range:
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _scale(value: int, factor: float) -> int:
    scaled = math.ceil(float(value) * factor)
    return MAX if scaled >= 2**64 else scaled


NOTHING: Final = Range(0, 0)
ONE: Final = Range(1, 1)
UNKNOWN: Final = Range(0, MAX)
