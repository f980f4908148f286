"""Who gets what nobody must have: the worst off first, at the expense of the best off if need be.

The more important groups have all they may have before others get more than they must have. Among equals, whoever
is on the lowest level has the next place. Where there is none, somebody gives a place who is less important, or as
important and still better off without it. Every such step is strictly better for the worst off of those concerned,
so it is never taken back and there is an end to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from itertools import groupby

from pliant.autoscale.crews import ANYWHERE, Crew
from pliant.autoscale.draft import Draft
from pliant.autoscale.givers import Asker, Givers
from pliant.autoscale.model import Code

Entry = tuple[float, int, Crew]
"""How well off a crew is, its number, and itself."""
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
        self._changed: set[Crew] = set()
        """Crews that others know by a size they no longer have."""

    def share(self) -> None:
        """Until nothing gets better."""
        for _ in range(_PASSES):
            before = self._exchanges
            for _, crews in groupby(self._crews, key=lambda crew: crew.priority):
                self._fill(crews)
            if self._exchanges == before:
                return
            if self._givers:
                self._givers.renew(crew for crew in self._changed if crew.elastic.may_shrink)
            self._changed.clear()

    def _fill(self, crews: Iterable[Crew]) -> None:
        """Give places to crews that are equally important for as long as there are any."""
        kinds: dict[tuple[int, int], list[Entry]] = {}
        for crew in crews:
            # Who could not have the least it must have gets nothing here: a few members more would not help it.
            if crew.least <= len(crew.seats) < crew.ceiling:
                kinds.setdefault((id(crew.foot), id(crew.purse)), []).append((crew.standing, crew.number, crew))
        for entries in kinds.values():
            heapify(entries)
        heads = [(entries[0][:2], kind) for kind, entries in kinds.items()]
        heapify(heads)
        while heads:
            _, kind = heads[0]
            entries = kinds[kind]
            crew = entries[0][2]
            if self._grows(crew) and len(crew.seats) < crew.ceiling:
                heapreplace(entries, (crew.standing, crew.number, crew))
            elif len(crew.seats) == crew.ceiling or crew.home != ANYWHERE:
                heappop(entries)
            else:
                entries.clear()  # others of its kind would fare no better
            if entries:
                heapreplace(heads, (entries[0][:2], kind))
            else:
                heappop(heads)

    def _grows(self, crew: Crew) -> bool:
        """Have one more member come if there is a place for it, or somebody gives one."""
        hindrance = self._draft.limit(crew)
        node = None if hindrance else self._draft.place(crew)
        if node is not None:
            self._draft.add(crew, node)
        elif crew.home != ANYWHERE or not self._is_given(crew, hindrance):
            return False
        if self._givers:
            self._changed.add(crew)
        return True

    def _is_given(self, crew: Crew, hindrance: Code | None) -> bool:
        """Whether somebody has given this one a place."""
        if self._givers is None:
            self._givers = Givers(each for each in self._crews if each.elastic.may_shrink)
        purse, level = crew.purse if hindrance is Code.QUOTA else None, crew.standing

        def gives(giver: Crew) -> bool | None:
            if purse is not None and giver.purse is not purse:
                return None
            return self._exchange(giver, crew, level, hindrance is not None) or None

        asker = Asker(crew.priority, level, (id(crew.foot), id(crew.purse), crew.priority))
        is_given = bool(self._givers.first(asker, gives))
        self._exchanges += is_given
        return is_given

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
        self._changed.add(giver)
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
            # Of equals only those are asked that are better off when one has left.
            if number > 1 and is_equal and giver.level(size) <= level:
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
