"""Who would give a place away: the least important first, then the best off, then the youngest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from pliant.autoscale.crews import Crew

Entry = tuple[int, float, int, int, Crew]
Answer = TypeVar("Answer")

_TRIES = 16
"""How many of a family are asked in vain. With thousands of groups the next would hardly answer otherwise."""


class Asker(NamedTuple):
    """Who asks for a place."""

    priority: int
    level: float | None = None
    """How well off it is: those as important must be better off without what they give. None if it must be."""
    kind: object = None
    """Those of one kind need not ask a family again that could give another of them nothing."""


class Givers:
    """Crews above their least size, in families that ask for the same resources on the same nodes.

    A place that one member of a family gives is mostly as good as that of another, and of no use to somebody who
    needs something else: so everybody asks a few of every family.
    """

    def __init__(self, crews: Iterable[Crew]) -> None:
        self._heaps: dict[tuple[int, int], list[Entry]] = {}
        for crew in crews:
            if len(crew.seats) > crew.least and not crew.is_fixed:
                self._heaps.setdefault(_family(crew), []).append(_entry(crew))
        for heap in self._heaps.values():
            heapify(heap)
        self._futile: set[tuple[object, tuple[int, int]]] = set()
        """Who has asked which family in vain."""

    def put(self, crew: Crew) -> None:
        """Add one that has a member to give again."""
        heappush(self._heaps.setdefault(_family(crew), []), _entry(crew))

    def renew(self, crews: Iterable[Crew]) -> None:
        """Begin anew: these have another size than before, and everybody may ask again."""
        self._futile.clear()
        for crew in sorted(crews, key=lambda each: each.number):
            if len(crew.seats) > crew.least:
                self.put(crew)

    def first(self, asker: Asker, suits: Callable[[Crew], Answer | None]) -> Answer | None:
        """What the first says that suits, of those that are no more important."""
        families = [(heap[0][:3], family) for family, heap in self._heaps.items() if heap]
        for _, family in sorted(families):
            if (asker.kind, family) not in self._futile:
                answer = _first(self._heaps[family], asker, suits)
                if answer is not None:
                    return answer
                if asker.kind:
                    self._futile.add((asker.kind, family))
        return None


def _first(heap: list[Entry], asker: Asker, suits: Callable[[Crew], Answer | None]) -> Answer | None:
    priority, below, _ = asker
    asked: list[Crew] = []
    answer = None
    while heap and answer is None and len(asked) < _TRIES:
        importance, level, _, size, crew = heap[0]
        if importance > priority or (below is not None and importance == priority and -level <= below):
            break
        heappop(heap)
        if size == len(crew.seats) and crew not in asked:
            asked.append(crew)
            answer = suits(crew)
        elif size != len(crew.seats) > crew.least:
            heappush(heap, _entry(crew))
    for crew in asked:
        if len(crew.seats) > crew.least:
            heappush(heap, _entry(crew))
    return answer


def _family(crew: Crew) -> tuple[int, int]:
    return crew.foot.signs, id(crew.foot.open_to)


def _entry(crew: Crew) -> Entry:
    size = len(crew.seats)
    return crew.priority, -crew.level(size - 1), -crew.number, size, crew
