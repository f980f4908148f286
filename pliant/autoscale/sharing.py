"""Who gets what nobody must have: the worst off first, at the expense of the best off if need be.

The more important groups have all they may have before others get more than they must have. Among equals, whoever
is on the lowest level has the next place. Where there is none, somebody gives a place who is less important, or as
important and still better off without it. Every such step is strictly better for the worst off of those concerned,
so it is never taken back and there is an end to them.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from itertools import groupby

from pliant.autoscale.crews import ANYWHERE, Crew
from pliant.autoscale.draft import Draft
from pliant.autoscale.givers import Asker, Givers
from pliant.autoscale.model import Code

_PASSES = 50
"""A limit to what one plan may cost; hardly ever are there more than three. The next plan goes on."""
_CHAIN = 8
"""How many places a group gives at once to one that needs more room."""


class Shares:
    """Hands out what is left."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._crews = [crew for crew in draft.crews if not crew.is_fixed]
        self._givers: Givers | None = None
        self._exchanges = 0
        self._hopeless: set[tuple[int, int, int]] = set()
        """Shape, quota and priority of groups to which nobody could give anything, in this pass."""

    def share(self) -> None:
        """Until nothing gets better."""
        for _ in range(_PASSES):
            before = self._exchanges
            self._givers = None
            self._hopeless.clear()
            for _, crews in groupby(self._crews, key=lambda crew: crew.priority):
                self._fill(list(crews))
            if self._exchanges == before:
                return

    def _fill(self, crews: list[Crew]) -> None:
        """Give places to crews that are equally important for as long as there are any."""
        draft = self._draft
        # Who could not have the least it must have gets nothing here: a few members more would not help it.
        heap = [
            (crew.level(len(crew.seats)), crew.number, crew)
            for crew in crews
            if crew.least <= len(crew.seats) < crew.ceiling
        ]
        heapify(heap)
        while heap:
            level, number, crew = heap[0]
            hindrance = draft.limit(crew)
            node = None if hindrance else draft.place(crew)
            if node is not None:
                draft.add(crew, node)
            elif not self._is_given(crew, level, hindrance):
                heappop(heap)
                continue
            if len(crew.seats) < crew.ceiling:
                heapreplace(heap, (crew.level(len(crew.seats)), number, crew))
            else:
                heappop(heap)

    def _is_given(self, crew: Crew, level: float, hindrance: Code | None) -> bool:
        """Whether somebody has given this one a place."""
        purse = crew.purse if hindrance is Code.QUOTA else None
        kind = id(crew.foot), id(crew.purse), crew.priority
        if crew.home != ANYWHERE or kind in self._hopeless:
            return False
        if self._givers is None:
            self._givers = Givers(each for each in self._crews if each.elastic.may_shrink)

        def gives(giver: Crew) -> bool | None:
            if purse is not None and giver.purse is not purse:
                return None
            return self._exchange(giver, crew, level, hindrance is not None) or None

        if self._givers.first(Asker(crew.priority, level, kind), gives):
            self._exchanges += 1
            return True
        self._hopeless.add(kind)
        return False

    def _exchange(self, giver: Crew, crew: Crew, level: float, has_room: bool) -> bool:
        """Have a few members of one leave if one of the other can come then."""
        number, node = self._price(giver, crew, level)
        if not number and has_room and self._is_legal(giver, crew, 1, giver.seats[-1]):
            # Not room was short but what may be given away of it.
            number, node = 1, self._draft.floor.where(crew.foot)
        if not number or node is None:
            return False
        for _ in range(number):
            self._draft.drop(giver)
        self._draft.add(crew, node)
        giver.takers.add(str(crew.elastic.key))
        return True

    def _price(self, giver: Crew, crew: Crew, level: float) -> tuple[int, int | None]:
        """How many members must leave so that one can come, and where; 0 if more would have to than should."""
        free, foot, gift = self._draft.floor.free, crew.foot, giver.foot.need
        seats = giver.seats
        left: dict[int, int] = {}
        is_equal = giver.priority == crew.priority
        for number in range(1, min(_CHAIN, len(seats) - giver.least) + 1):
            size = len(seats) - number
            if is_equal and giver.level(size) <= level:
                break
            node = seats[size]
            room = left[node] = left.get(node, free[node]) + gift
            fits = room - foot.need & foot.signs == foot.signs and foot.open_to[node]
            if fits and self._is_legal(giver, crew, number, node):
                return number, node
        return 0, None

    def _is_legal(self, giver: Crew, crew: Crew, number: int, node: int) -> bool:
        """Whether limits of load and quota let one come when so many have left."""
        floor, foot = self._draft.floor, crew.foot
        if crew.purse and not crew.purse.may_take(
            foot, giver.foot.need * number if giver.purse is crew.purse else 0
        ):
            return False
        if giver.foot.load == foot.load and floor.is_open[node]:
            return True
        returned = sum(giver.foot.load for seat in giver.seats[-number:] if floor.is_open[seat])
        # Where too much is given away already, it must be no more than before.
        change = returned - foot.load
        return (floor.slack + change | floor.lanes.nothing + change) & foot.load_signs == foot.load_signs
