"""Those who must have room have it first: pods that wait, and members below the least size of their group.

The more important come first, then those who have waited longer. Where no room is free, others leave that are no
more important, as far as they are above the least size of their group: the least important first, then the best
off. Nobody leaves in vain, neither for a pod that would not fit even then, nor for a group that would still be
below its least size.
"""

from __future__ import annotations

from collections.abc import Callable

from pliant.autoscale.crews import Crew
from pliant.autoscale.draft import Draft
from pliant.autoscale.givers import Asker, Givers
from pliant.autoscale.model import Claim, Code, Shape
from pliant.autoscale.packing import Footprint
from pliant.autoscale.reach import Reach
from pliant.autoscale.words import needs_in_words, several

Step = tuple[Crew, int, bool]
"""A crew, a node, and whether a member came there or left."""


class Door:
    """Lets in whoever must have room."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._reaches: dict[int, Reach] = {}
        self._givers: Givers | None = None
        self._steps: list[Step] = []

    def let_in(self) -> None:
        """Everybody there is room for, or can be."""
        below = [crew for crew in self._draft.crews if len(crew.seats) < crew.least]
        everybody: list[Claim | Crew] = [*self._draft.cluster.claims, *below]
        for each in sorted(everybody, key=_turn):
            if isinstance(each, Claim):
                self._admit_claim(each)
            else:
                self._admit_crew(each)

    def _admit_claim(self, claim: Claim) -> None:
        floor = self._draft.floor
        foot, left = floor.footprint(claim.shape), claim.number
        while left:
            node = floor.where(foot)
            if node is None:
                node = self._room_made(foot, claim.priority)
            if node is None:
                return
            self._take(foot, node)
            self._draft.arrivals.append((claim, node))
            self._settle(claim.key, claim.number, claim.shape)
            left -= 1

    def _admit_crew(self, crew: Crew) -> None:
        draft = self._draft
        while len(crew.seats) < crew.least and _is_allowed(crew) and (node := draft.place(crew)) is not None:
            self._seat(crew, node)
        self._steps.clear()
        missing = crew.least - len(crew.seats)
        while len(crew.seats) < crew.least:
            node = self._node_for(crew)
            if node is None:
                self._undo()
                return
            self._seat(crew, node)
        self._settle(str(crew.elastic.key), missing, crew.elastic.shape)

    def _node_for(self, crew: Crew) -> int | None:
        """A place for one more member of a group below its least size, if need be one that others leave."""
        while not _is_allowed(crew):
            if self._leaves(crew.priority, lambda giver: giver.purse is crew.purse) is None:
                return None
        node = self._draft.place(crew)
        return self._room_made(crew.foot, crew.priority) if node is None else node

    def _room_made(self, foot: Footprint, priority: int) -> int | None:
        """A node that others leave so that there is room, if there is any."""
        reach = self._reach(priority)
        if not reach.has_room(foot.shape):
            return None
        free = self._draft.floor.free
        need, signs, open_to = foot.need, foot.signs, foot.open_to

        def gives_way(giver: Crew) -> bool:
            node = giver.seats[-1]
            return bool(open_to[node]) and free[node] + giver.foot.need - need & signs == signs

        node = self._leaves(priority, gives_way)
        if node is not None:
            return node
        eviction = reach.eviction(foot.shape)
        if eviction is None:
            return None
        for crew, size in eviction.sizes:
            while len(crew.seats) > size:
                self._drop(crew)
        return eviction.node

    def _leaves(self, priority: int, suits: Callable[[Crew], bool]) -> int | None:
        """The node that somebody who suits leaves."""
        if self._givers is None:
            self._givers = Givers(self._draft.crews)
        return self._givers.first(Asker(priority), lambda giver: self._drop(giver) if suits(giver) else None)

    def _reach(self, priority: int) -> Reach:
        if priority not in self._reaches:
            self._reaches[priority] = Reach(self._draft.floor, self._draft.crews, priority)
        return self._reaches[priority]

    def _take(self, foot: Footprint, node: int) -> None:
        self._draft.floor.take(foot, node)
        for reach in self._reaches.values():
            reach.take(foot.shape, node)

    def _seat(self, crew: Crew, node: int) -> None:
        self._draft.add(crew, node)
        for reach in self._reaches.values():
            reach.take(crew.foot.shape, node)
        self._steps.append((crew, node, True))

    def _drop(self, crew: Crew) -> int:
        node = self._draft.drop(crew)
        self._steps.append((crew, node, False))
        return node

    def _undo(self) -> None:
        """As if nobody had come or left since those who did were settled."""
        for crew, node, has_come in reversed(self._steps):
            if has_come:
                self._draft.drop(crew)
                for reach in self._reaches.values():
                    reach.give(crew.foot.shape, node)
            else:
                self._draft.add(crew, node)
                if self._givers:
                    self._givers.put(crew)
        self._steps.clear()

    def _settle(self, who: str, number: int, shape: Shape) -> None:
        """Whoever has left has left for this one."""
        for crew, _, has_come in self._steps:
            if not has_come and crew.reason is None:
                wait = "waits" if number == 1 else "wait"
                what = f"{several(number, 'pod')} of {needs_in_words(shape)} {wait}"
                crew.reason = Code.GIVES_WAY, f"gives way to {who}: {what}"
        self._steps.clear()


def _turn(one: Claim | Crew) -> tuple[float, float, str, tuple[tuple[str, int], ...]]:
    """The more important come first, then those that have waited longer."""
    if isinstance(one, Claim):
        return -one.priority, one.since, one.key, one.shape.needs
    return -one.priority, one.elastic.since, str(one.elastic.key), ()


def _is_allowed(crew: Crew) -> bool:
    return crew.purse is None or crew.purse.may_take(crew.foot)
