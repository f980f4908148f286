"""Groups while a plan is in the making: who sits where, and who may still come or go.

Only sizes can be planned, and whoever leaves first has the highest index. So the members of a group are a stack:
one that comes goes on top, one that leaves is taken from there. A member that has a node stays there until it is
taken off: if a group gives its last member away and grows again in the same plan, it has that member back on the
node where it really is, or nobody.
"""

from __future__ import annotations

from pliant.autoscale.model import Code, Elastic
from pliant.autoscale.order import Rank
from pliant.autoscale.packing import Floor, Footprint
from pliant.autoscale.quota import Purse

ANYWHERE = -1


class Crew:
    """The members of one group."""

    __slots__ = (
        "_known",
        "ceiling",
        "elastic",
        "foot",
        "homes",
        "is_fixed",
        "least",
        "level",
        "number",
        "priority",
        "purse",
        "reason",
        "seats",
        "sheds",
        "takers",
        "tie",
    )

    def __init__(self, elastic: Elastic, rank: Rank, foot: Footprint) -> None:
        self.elastic = elastic
        self.foot = foot
        self.level = rank.level
        self.tie = rank.tie
        self.sheds = rank.sheds
        self.priority = elastic.priority
        self.is_fixed = elastic.is_fixed or not is_measured(elastic)
        self.least = min(elastic.least, elastic.size if self.is_fixed else elastic.most)
        self.ceiling = _ceiling(elastic, self.is_fixed)
        self._known: tuple[int, float] = (-1, 0.0)
        self.number = 0
        """Its place among all crews: the more important first, then the older."""
        self.purse: Purse | None = None
        self.seats: list[int] = []
        """The nodes of members by index, as planned so far."""
        self.homes: list[int] = []
        """Where a member of this index must sit, since it does; or anywhere."""
        self.reason: tuple[Code, str] | None = None
        """Why members have left."""
        self.takers: set[str] = set()
        """Who has got a place of it as a share."""

    @property
    def home(self) -> int:
        """Where the next member must sit, or anywhere."""
        size = len(self.seats)
        return self.homes[size] if size < len(self.homes) else ANYWHERE

    @property
    def standing(self) -> float:
        """The level it is on; policies may have to think about it, so it is asked once for a size."""
        size = len(self.seats)
        if self._known[0] != size:
            self._known = size, self.level(size)
        return self._known[1]

    @property
    def keeps_waiting(self) -> bool:
        """Whether members without a node go on waiting for one instead of being given up."""
        return self.is_fixed or not self.elastic.may_shrink

    @property
    def size(self) -> int:
        """The size that is planned: members below the least size wait for room if there is none."""
        elastic = self.elastic
        if self.is_fixed:
            return elastic.size
        return max(len(self.seats), min(elastic.size, self.least))


def is_measured(elastic: Elastic) -> bool:
    """Whether its members ask for something by which one can tell how many fit."""
    return any(name != "pods" for name, _ in elastic.shape.needs)


def _ceiling(elastic: Elastic, is_fixed: bool) -> int:
    if is_fixed:
        return elastic.size
    if not elastic.may_grow:
        return min(elastic.most, max(elastic.least, elastic.size))
    return elastic.most


def sit_down(crew: Crew, floor: Floor) -> None:
    """Put members where they are, and fill the gaps among them from behind.

    A member without a node would have that of the last one, if the group were smaller by that one. What is left is
    the largest size at which nobody waits.
    """
    elastic, position, nowhere = crew.elastic, floor.position, floor.nowhere
    seats = [position.get(place, nowhere) if place else ANYWHERE for place in elastic.places[: elastic.size]]
    if len(seats) == elastic.size and ANYWHERE not in seats:
        crew.seats, crew.homes = seats, seats[:]
        return
    seats += [ANYWHERE] * (elastic.size - len(seats))
    gaps, spare, homes = seats.count(ANYWHERE), [], []
    while gaps:
        seat = seats.pop()
        if seat == ANYWHERE:
            gaps -= 1
            homes.append(ANYWHERE)
        elif crew.foot.open_to[seat]:
            gaps -= 1
            spare.append(seat)
            homes.append(ANYWHERE)
        else:
            floor.give(crew.foot, seat)
            homes.append(seat)
    crew.seats = [spare.pop() if seat == ANYWHERE else seat for seat in seats]
    crew.homes = crew.seats + homes[::-1]
