"""The nodes of a simulated cluster, and which of them a scheduler would choose.

Nodes have an integer score from 0 (full) to 100 (empty), the mean over CPU, memory and devices of what is free, as
kube-scheduler reckons by default. They lie in one drawer for each score, and on every drawer stands how much of
each resource a node in it has free at most, so that the best one is found without asking all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pliant.autoscale.model import Amounts, Shape
from pliant.simulation.trace import NodeClass

Needs = tuple[tuple[int, int], ...] | None
"""Positions of resources and amounts; None where no node has one of them at all."""


class Pool:
    """Nodes of one class, by their score."""

    __slots__ = ("bounds", "drawers", "room", "scored")

    def __init__(self, room: Sequence[int], scored: Sequence[int]) -> None:
        self.room = room
        self.scored = tuple(position for position in scored if room[position])
        self.drawers: list[dict[int, None]] = [{} for _ in range(101)]
        self.bounds = [[0] * len(room) for _ in range(101)]
        """Nobody in the drawer has more than this."""

    def put(self, node: int, score: int, free: Sequence[int]) -> None:
        """Into its drawer, on which it is written what it has."""
        self.drawers[score][node] = None
        bound = self.bounds[score]
        for position, amount in enumerate(free):
            if amount > bound[position]:
                bound[position] = amount

    def score(self, free: Sequence[int]) -> int:
        """From 0 for a node that is full to 100 for an empty one."""
        room = self.room
        total = 0
        for position in self.scored:
            total += free[position] * 100 // room[position]
        return total // (len(self.scored) or 1)


class Machines:
    """Takes and gives room; the same questions always have the same answers."""

    def __init__(self, classes: Iterable[NodeClass], *, is_packed: bool = False) -> None:
        known = tuple(classes)
        self.resources = tuple(sorted({name for kind in known for name in kind.room}))
        self._position = {name: position for position, name in enumerate(self.resources)}
        scored = [position for position, name in enumerate(self.resources) if name != "pods"]
        self._order = range(101) if is_packed else range(100, -1, -1)
        self.names: list[str] = []
        self.free: list[list[int]] = []
        self.rooms: list[Amounts] = []
        self._pools: list[Pool] = []
        self._pool_of: list[Pool] = []
        self._score: list[int] = []
        for kind in known:
            self._add(kind, scored)
        self.total = dict.fromkeys(self.resources, 0)
        for room in self.rooms:
            for name, amount in room.items():
                self.total[name] += amount

    def _add(self, kind: NodeClass, scored: Sequence[int]) -> None:
        room = [kind.room.get(name, 0) for name in self.resources]
        pool = Pool(room, scored)
        self._pools.append(pool)
        for number in range(kind.count):
            node = len(self.names)
            self.names.append(f"{kind.name}-{number}")
            self.free.append(list(room))
            self.rooms.append(kind.room)
            self._pool_of.append(pool)
            self._score.append(pool.score(room))
            pool.put(node, self._score[node], self.free[node])

    def needs(self, shape: Shape) -> Needs:
        """What a pod of this shape takes, in our order of resources."""
        if any(name not in self._position for name, _ in shape.needs):
            return None
        return tuple((self._position[name], amount) for name, amount in shape.needs)

    def fits(self, node: int, needs: Needs) -> bool:
        """Whether it has room for such a pod."""
        if needs is None:
            return False
        free = self.free[node]
        return all(free[position] >= amount for position, amount in needs)

    def best(self, needs: Needs) -> int | None:
        """The node a scheduler would choose for such a pod; None where none has room."""
        if needs is None:
            return None
        found = [place for pool in self._pools if (place := self._best_of(pool, needs)) is not None]
        return min(found)[2] if found else None

    def _best_of(self, pool: Pool, needs: tuple[tuple[int, int], ...]) -> tuple[int, int, int] | None:
        if any(pool.room[position] < amount for position, amount in needs):
            return None
        drawers, bounds = pool.drawers, pool.bounds
        for score in self._order:
            drawer = drawers[score]
            if not drawer:
                continue
            bound = bounds[score]
            for position, amount in needs:
                if bound[position] < amount:
                    break
            else:
                order, node = self._first_in(drawer, needs)
                if node is not None:
                    return abs(score - self._order[0]), order, node
                bounds[score] = [max(column) for column in zip(*(self.free[each] for each in drawer), strict=True)]
        return None

    def _first_in(self, drawer: Iterable[int], needs: tuple[tuple[int, int], ...]) -> tuple[int, int | None]:
        free = self.free
        for order, node in enumerate(drawer):
            here = free[node]
            for position, amount in needs:
                if here[position] < amount:
                    break
            else:
                return order, node
        return 0, None

    def rank(self, node: int) -> int:
        """The smaller, the sooner it is chosen."""
        return abs(self._score[node] - self._order[0])

    def take(self, node: int, needs: Needs) -> None:
        """A pod sits down there."""
        self._change(node, needs, -1)

    def give(self, node: int, needs: Needs) -> None:
        """A pod has left."""
        self._change(node, needs, 1)

    def _change(self, node: int, needs: Needs, sign: int) -> None:
        free = self.free[node]
        for position, amount in needs or ():
            free[position] += sign * amount
        pool = self._pool_of[node]
        score = pool.score(free)
        if score != self._score[node]:
            del pool.drawers[self._score[node]][node]
            self._score[node] = score
            pool.put(node, score, free)
        elif sign > 0:
            pool.put(node, score, free)

    def overfull(self) -> Iterator[str]:
        """Nodes that hold more than they have; there must never be one."""
        return chain(name for name, free in zip(self.names, self.free, strict=True) if min(free, default=0) < 0)
