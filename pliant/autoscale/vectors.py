"""Amounts of many resources in one integer, compared and added in one step.

Every resource has a lane of bits. A lane holds an amount above `ZERO`, so that it may fall below nothing without
touching its neighbour; whether it has is told by one bit. Policies ask "does it fit here?" for every pod and many
nodes: a subtraction and an `and` of two integers take a small part of what a loop over names would.
"""

from __future__ import annotations

from collections.abc import Iterable

LANE = 96
ZERO = 1 << 94
MOST = 1 << 60
"""No amount is larger; of memory that is 1 EiB. A lane holds as much of billions of nodes."""


class Lanes:
    """Which resource has which lane. Those that nobody asks for have none."""

    __slots__ = ("_shifts", "_tops", "nothing")

    def __init__(self, names: Iterable[str]) -> None:
        self._shifts = {name: LANE * number for number, name in enumerate(sorted(set(names)))}
        self.nothing = sum(ZERO << shift for shift in self._shifts.values())
        """0 of everything. The same bits are set as long as no lane is below 0."""
        self._tops = self.nothing << 1

    def packed(self, amounts: Iterable[tuple[str, int]]) -> int:
        """Amounts to add to room, or to take from it."""
        shifts, total = self._shifts, 0
        for name, amount in amounts:
            shift = shifts.get(name)
            if shift is not None:
                total += (amount if amount < MOST else MOST) << shift
        return total

    def signs(self, names: Iterable[str]) -> int:
        """The bits that are set as long as none of these is below 0."""
        return sum(ZERO << self._shifts[name] for name in set(names) if name in self._shifts)

    def mask(self, names: Iterable[str]) -> int:
        """All bits of these lanes."""
        return self.signs(names) // ZERO * ((1 << LANE) - 1)

    def amount(self, room: int, name: str) -> int:
        """How much of one resource there is in some room; below 0 where too much was taken."""
        shift = self._shifts.get(name)
        return 0 if shift is None else (room >> shift & (1 << LANE) - 1) - ZERO

    def most(self, one: int, other: int) -> int:
        """The larger of two rooms, lane by lane."""
        # The top bit of a lane is left where `one` has no less; shifted down and taken away it fills the lane.
        left = (one | self._tops) - other & self._tops
        mask = left - (left >> LANE - 1)
        return one & mask | other & ~mask
