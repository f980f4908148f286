"""Amounts of many resources in one integer, compared and added in one step.

Every resource has a lane of bits. A lane holds an amount above `ZERO`, so that it may fall below nothing without
touching its neighbour; whether it has is told by one bit. Policies ask "does it fit here?" for every pod and many
nodes: a subtraction and an `and` of two integers take a small part of what a loop over names would.
"""

from __future__ import annotations

from collections.abc import Iterable

LANE_BITS = 96
LANE_ZERO = 1 << 94
MAX_AMOUNT = 1 << 60
"""No amount is larger; of memory that is 1 EiB. A lane holds as much of billions of nodes."""


class ResourceVectorLayout:
    """Which resource has which lane. Those that nobody asks for have none."""

    __slots__ = ("_shifts", "_top_bits", "zero")

    def __init__(self, resources: Iterable[str]) -> None:
        self._shifts = {name: LANE_BITS * number for number, name in enumerate(sorted(set(resources)))}
        self.zero = sum(LANE_ZERO << shift for shift in self._shifts.values())
        """0 of everything. The same bits are set as long as no lane is below 0."""
        self._top_bits = self.zero << 1

    def pack(self, amounts: Iterable[tuple[str, int]]) -> int:
        """Amounts to add to room, or to take from it."""
        shifts, total = self._shifts, 0
        for name, amount in amounts:
            shift = shifts.get(name)
            if shift is not None:
                total += (amount if amount < MAX_AMOUNT else MAX_AMOUNT) << shift
        return total

    def sign_bits(self, resources: Iterable[str]) -> int:
        """The bits that are set as long as none of these is below 0."""
        return sum(LANE_ZERO << self._shifts[name] for name in set(resources) if name in self._shifts)

    def lane_mask(self, resources: Iterable[str]) -> int:
        """All bits of these lanes."""
        return self.sign_bits(resources) // LANE_ZERO * ((1 << LANE_BITS) - 1)

    def amount_of(self, vector: int, resource: str) -> int:
        """How much of one resource there is in some room; below 0 where too much was taken."""
        shift = self._shifts.get(resource)
        return 0 if shift is None else (vector >> shift & (1 << LANE_BITS) - 1) - LANE_ZERO

    def elementwise_max(self, first: int, second: int) -> int:
        """The larger of two rooms, lane by lane."""
        # The top bit of a lane is left where `one` has no less; shifted down and taken away it fills the lane.
        left = (first | self._top_bits) - second & self._top_bits
        mask = left - (left >> LANE_BITS - 1)
        return first & mask | second & ~mask
