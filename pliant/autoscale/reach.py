"""What somebody important enough could have: free room, and what others would leave to make more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pliant.autoscale.crews import Crew
from pliant.autoscale.model import Shape
from pliant.autoscale.packing import Floor, Footprint

_CANDIDATES = 16
"""How many nodes are compared."""


class Eviction(NamedTuple):
    """Who must leave so that there is room on a node."""

    cost: tuple[int, int, float]
    """How important the most important of them is, how many leave, and how badly off the worst off are then."""
    node: int
    sizes: tuple[tuple[Crew, int], ...]
    """To how many members their groups shrink."""


class Reach:
    """A floor from which everybody of some priority or less is gone who is above the least size of their group."""

    def __init__(self, floor: Floor, crews: Iterable[Crew], priority: int) -> None:
        self._floor = floor
        self._crews = [crew for crew in crews if crew.priority <= priority and not crew.is_fixed]
        self._sitters: dict[int, list[Crew]] = {}
        free = floor.free[:]
        for crew in self._crews:
            need = crew.foot.need
            for node in crew.seats[crew.least :]:
                free[node] += need
        free[floor.nowhere] = floor.lanes.nothing
        self._wide = floor.widened(free)

    def has_room(self, shape: Shape) -> bool:
        """Whether some node would have room."""
        return self._wide.where(self._wide.footprint(shape)) is not None

    def take(self, shape: Shape, node: int) -> None:
        """Somebody has come who will not leave for others."""
        self._wide.take(self._wide.footprint(shape), node)

    def give(self, shape: Shape, node: int) -> None:
        """It has not come after all."""
        self._wide.give(self._wide.footprint(shape), node)

    def eviction(self, shape: Shape) -> Eviction | None:
        """The cheapest way to make room on one of the first nodes that could have it."""
        foot = self._wide.footprint(shape)
        first = self._wide.where(foot)
        if first is None:
            return None
        options = (self._option(foot, node) for node in self._wide.candidates(foot, first, _CANDIDATES))
        return min((each for each in options if each), key=lambda each: (each.cost, each.node), default=None)

    def _option(self, foot: Footprint, node: int) -> Eviction | None:
        sitters = [
            (crew, index)
            for crew in self._sitters_of(node)
            for index, seat in enumerate(crew.seats)
            if seat == node and index >= crew.least
        ]
        # The least important first, then those for whom the fewest others must leave as well.
        sitters.sort(key=lambda each: (each[0].priority, len(each[0].seats) - each[1], -each[0].number))
        room, leavers = self._floor.free[node], []
        for crew, index in sitters:
            if room - foot.need & foot.signs == foot.signs:
                break
            room += crew.foot.need
            leavers.append((crew, index))
        if room - foot.need & foot.signs != foot.signs:
            return None
        sizes: dict[Crew, int] = {}
        for crew, index in self._needed(foot, room, leavers):
            sizes[crew] = min(index, sizes.get(crew, index))
        number = sum(len(crew.seats) - size for crew, size in sizes.items())
        importance = max((crew.priority for crew in sizes), default=0)
        welfare = min((crew.level(size) for crew, size in sizes.items()), default=0.0)
        return Eviction((importance, number, -welfare), node, tuple(sizes.items()))

    def _sitters_of(self, node: int) -> list[Crew]:
        """The crews that had members there when this was first asked; nobody has come since who might leave."""
        if not self._sitters:
            for crew in self._crews:
                for each in set(crew.seats[crew.least :]):
                    self._sitters.setdefault(each, []).append(crew)
        return self._sitters.get(node, [])

    def _needed(self, foot: Footprint, room: int, leavers: list[tuple[Crew, int]]) -> list[tuple[Crew, int]]:
        """Those without whom there would not be room."""
        needed = []
        for crew, index in reversed(leavers):
            if room - crew.foot.need - foot.need & foot.signs == foot.signs:
                room -= crew.foot.need
            else:
                needed.append((crew, index))
        return needed
