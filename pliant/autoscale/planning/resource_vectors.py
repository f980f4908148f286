"""Packs the amounts of many resources into one integer, to add and compare them in one operation.

Every resource has a lane of bits that holds its amount plus `LANE_ZERO`, so that a negative amount does not borrow
from the next lane; one bit tells whether it is negative. Policies check for every pod and many nodes whether it
fits: one subtraction and one `and` cost a fraction of a loop over resources.
"""

from __future__ import annotations

from collections.abc import Iterable

LANE_BITS = 96
LANE_ZERO = 1 << 94
MAX_LANE_AMOUNT = 1 << 60
"""Larger amounts are capped; for memory this is 1 EiB. A lane can hold the sum of billions of nodes."""


class ResourceVectorLayout:
    """Assigns a lane to each resource that a pod requests."""

    __slots__ = ("_shifts", "_top_bits", "zero")

    def __init__(self, resources: Iterable[str]) -> None:
        self._shifts = {name: LANE_BITS * number for number, name in enumerate(sorted(set(resources)))}
        self.zero = sum(LANE_ZERO << shift for shift in self._shifts.values())
        """The vector of zeros; its bits stay set as long as no amount is negative."""
        self._top_bits = self.zero << 1

    def pack(self, amounts: Iterable[tuple[str, int]]) -> int:
        """Pack amounts, to add them to a vector or subtract them from it."""
        shifts, total = self._shifts, 0
        for name, amount in amounts:
            shift = shifts.get(name)
            if shift is not None:
                total += (amount if amount < MAX_LANE_AMOUNT else MAX_LANE_AMOUNT) << shift
        return total

    def sign_bits(self, resources: Iterable[str]) -> int:
        """Return the bits that are set as long as none of these resources is negative."""
        return sum(LANE_ZERO << self._shifts[name] for name in set(resources) if name in self._shifts)

    def lane_mask(self, resources: Iterable[str]) -> int:
        return self.sign_bits(resources) // LANE_ZERO * ((1 << LANE_BITS) - 1)

    def amount_of(self, vector: int, resource: str) -> int:
        """Return the amount of one resource in a vector; it may be negative."""
        shift = self._shifts.get(resource)
        return 0 if shift is None else (vector >> shift & (1 << LANE_BITS) - 1) - LANE_ZERO

    def elementwise_max(self, first: int, second: int) -> int:
        # The top bit of a lane stays set where `first` is not less; shifted down and subtracted it fills the lane.
        not_less = (first | self._top_bits) - second & self._top_bits
        mask = not_less - (not_less >> LANE_BITS - 1)
        return first & mask | second & ~mask
