"""Which CPUs a container with a limit runs on: as many as the limit needs, of those promised to the fewest."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from fractions import Fraction


class CpuDesk:
    """Hands out CPUs; containers without a limit use them all, and nobody is refused."""

    def __init__(self, cpus: Iterable[int] | None = None) -> None:
        self._promised = dict.fromkeys(sorted(os.sched_getaffinity(0) if cpus is None else cpus), Fraction())
        self._held: dict[object, tuple[list[int], Fraction]] = {}

    def take(self, holder: object, limit: Fraction) -> list[int]:
        """CPUs for a container, none when it may use all of them."""
        count = math.ceil(limit)
        if not 0 < count < len(self._promised):
            return []
        chosen = sorted(sorted(self._promised, key=lambda cpu: (self._promised[cpu], cpu))[:count])
        share = limit / count
        for cpu in chosen:
            self._promised[cpu] += share
        self._held[holder] = (chosen, share)
        return chosen

    def give_back(self, holder: object) -> None:
        """The container has ended."""
        chosen, share = self._held.pop(holder, ([], Fraction()))
        for cpu in chosen:
            self._promised[cpu] -= share
