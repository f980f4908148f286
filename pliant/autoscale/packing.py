"""Where pods would fit: the free room of every node, and what may be given away of all of it.

Nodes have a position, the fullest first: newcomers go to the first that has room, so that big holes survive. Nodes
with free devices come last, those with the fewest of them first, so that nobody sits on them who needs none.

The limit of load concerns nodes that take newcomers alone, their room and what is taken of it: cordoning a node
takes both out of the account. Where pods end up is up to the scheduler; what counts here is how many fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from pliant.autoscale.model import Cluster, Node, Shape
from pliant.autoscale.vectors import Lanes

LIMITED = ("cpu", "memory")
"""What `Cluster.load` concerns."""
_COMMON = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))
_BLOCK = 64
_PATIENCE = 4
"""How many searches a block may disappoint before its bound is made anew, which costs about as much."""


class Footprint:
    """A shape as a floor sees it; there is one for all equal shapes."""

    __slots__ = ("cursor", "heard", "load", "load_signs", "need", "open_to", "shape", "signs")

    def __init__(self, shape: Shape, lanes: Lanes, open_to: bytearray, heard: int) -> None:
        self.shape = shape
        self.need = lanes.packed(shape.needs)
        self.signs = lanes.signs(name for name, _ in shape.needs)
        """Only what is needed must be there: a node that is short of something else will do."""
        limited = [(name, amount) for name, amount in shape.needs if name in LIMITED]
        self.load = lanes.packed(limited)
        self.load_signs = lanes.signs(name for name, _ in limited)
        self.open_to = open_to
        """By position, whether a node takes it as a newcomer."""
        self.cursor = 0
        """Nodes before it had no room for this."""
        self.heard = heard
        """Nodes that had none and were given some are in the floor's news from here on."""


class Floor:
    """The free room of a cluster's nodes after everything that is there."""

    def __init__(self, cluster: Cluster) -> None:
        """Everybody who has a node is there, but for members beyond the size of their group: they are leaving."""
        shapes = {each.shape for each in cluster.elastics} | {each.shape for each in cluster.claims}
        self.lanes = Lanes(name for shape in shapes for name, _ in shape.needs)
        rooms = _rooms(cluster, self.lanes)
        nodes = sorted(cluster.nodes, key=lambda node: _order(node, rooms[node.name], self.lanes))
        self.names = [node.name for node in nodes]
        self.position = {name: number for number, name in enumerate(self.names)}
        self.nowhere = len(nodes)
        """The position of nodes that are not known: whoever is there takes up nothing, and nobody can go there."""
        self.free = [rooms[name] for name in self.names]
        self.is_open = bytearray(node.is_open for node in nodes)
        self.is_open.append(False)
        self.slack = _slack(cluster, self.free, self.is_open, self.lanes)
        """How much more may be given away of all that is limited."""
        self._domains: dict[frozenset[str] | None, bytearray] = {None: self.is_open}
        self._open([*self.free, self.lanes.nothing])

    def _open(self, free: list[int]) -> None:
        """Begin to search from the first node."""
        self.free = free
        self._footprints: dict[Shape, Footprint] = {}
        self._bounds = [self._bound(block) for block in range(0, len(free), _BLOCK)]
        self._disappointments = [0] * len(self._bounds)
        self._news: list[int] = []

    def footprint(self, shape: Shape) -> Footprint:
        """The footprint of a shape."""
        known = self._footprints.get(shape)
        if known is None:
            known = Footprint(shape, self.lanes, self._domain(shape.allowed), len(self._news))
            self._footprints[shape] = known
        return known

    def where(self, foot: Footprint) -> int | None:
        """The position of a node that has room for a newcomer, if any has; limits of load and quota aside."""
        need, signs, open_to, free = foot.need, foot.signs, foot.open_to, self.free
        news, heard = self._news, foot.heard
        while heard < len(news):
            node = news[heard]
            if free[node] - need & signs == signs and open_to[node]:
                foot.heard = heard
                return node
            heard += 1
        foot.heard = heard
        return self._search(foot)

    def is_room(self, foot: Footprint, node: int) -> bool:
        """Whether a node has room for one more of these, whether it takes newcomers or not."""
        return self.free[node] - foot.need & foot.signs == foot.signs

    def is_within_load(self, foot: Footprint) -> bool:
        """Whether one more of these may be added to all that is given away."""
        return self.slack - foot.load & foot.load_signs == foot.load_signs

    def take(self, foot: Footprint, node: int) -> None:
        """Put one there."""
        if node != self.nowhere:
            self.free[node] -= foot.need
        if self.is_open[node]:
            self.slack -= foot.load

    def give(self, foot: Footprint, node: int) -> None:
        """Take one away from there."""
        if self.is_open[node]:
            self.slack += foot.load
        if node != self.nowhere:
            room = self.free[node] = self.free[node] + foot.need
            self._bounds[node // _BLOCK] = self.lanes.most(self._bounds[node // _BLOCK], room)
            self._news.append(node)

    def exchange(self, leaver: Footprint, newcomer: Footprint, node: int) -> None:
        """Put one where another was; cheaper than to give and to take where they are alike."""
        if leaver.need == newcomer.need:
            return
        self.give(leaver, node)
        self.take(newcomer, node)

    def candidates(self, foot: Footprint, start: int, number: int) -> Iterator[int]:
        """The first nodes from a position on that have room for a newcomer, not more than this many."""
        need, signs, open_to, free = foot.need, foot.signs, foot.open_to, self.free
        node, end = start, self.nowhere
        while node < end and number:
            if node % _BLOCK == 0 and self._bounds[node // _BLOCK] - need & signs != signs:
                node += _BLOCK
                continue
            if free[node] - need & signs == signs and open_to[node]:
                number -= 1
                yield node
            node += 1

    def widened(self, free: list[int]) -> Floor:
        """The same nodes with other room, to ask what could be there."""
        other = copy(self)
        other._open(free)  # noqa: SLF001 - it is one of our own
        return other

    def _search(self, foot: Footprint) -> int | None:
        need, signs, open_to, free = foot.need, foot.signs, foot.open_to, self.free
        node, end = foot.cursor, self.nowhere
        while node < end:
            block = node // _BLOCK
            stop = min(block * _BLOCK + _BLOCK, end)
            if self._bounds[block] - need & signs == signs:
                for here in range(node, stop):
                    if free[here] - need & signs == signs and open_to[here]:
                        foot.cursor = here
                        return here
                self._disappoint(block)
            node = stop
        foot.cursor = end
        return None

    def _disappoint(self, block: int) -> None:
        self._disappointments[block] += 1
        if self._disappointments[block] == _PATIENCE:
            self._disappointments[block] = 0
            self._bounds[block] = self._bound(block * _BLOCK)

    def _bound(self, start: int) -> int:
        """As much of everything as any node of a block has."""
        most, bound = self.lanes.most, 0
        for room in self.free[start : start + _BLOCK]:
            bound = most(bound, room)
        return bound

    def _domain(self, allowed: frozenset[str] | None) -> bytearray:
        known = self._domains.get(allowed)
        if known is None:
            names = allowed or frozenset()
            known = bytearray(
                is_open and name in names for name, is_open in zip(self.names, self.is_open, strict=False)
            )
            known.append(False)
            self._domains[allowed] = known
        return known


def _rooms(cluster: Cluster, lanes: Lanes) -> dict[str, int]:
    """What is free on every node."""
    packed, nothing = lanes.packed, lanes.nothing
    rooms = {node.name: nothing + packed(node.room.items()) - packed(node.taken.items()) for node in cluster.nodes}
    needs: dict[Shape, int] = {}
    for elastic in cluster.elastics:
        shape = elastic.shape
        need = needs.get(shape)
        if need is None:
            need = needs[shape] = packed(shape.needs)
        for place in elastic.places[: elastic.size]:
            if place in rooms:
                rooms[place] -= need
    return rooms


def _slack(cluster: Cluster, free: list[int], is_open: bytearray, lanes: Lanes) -> int:
    """How much may still be given away: a part of all room, less what is taken of it."""
    totals: dict[str, int] = dict.fromkeys(LIMITED, 0)
    for node in cluster.nodes:
        if node.is_open:
            for name in LIMITED:
                totals[name] += node.room.get(name, 0)
    kept_free = {
        name: total - (int(total * cluster.load) if cluster.load < 1 else total) for name, total in totals.items()
    }
    nothing = lanes.nothing
    unused = sum(room - nothing for room, opened in zip(free, is_open, strict=False) if opened)
    return nothing + unused - lanes.packed(kept_free.items())


def _order(node: Node, room: int, lanes: Lanes) -> tuple[int, int, str]:
    """The fullest first; those with free devices last."""
    common = devices = 0
    for name, total in node.room.items():
        if name not in _COMMON:
            devices += max(lanes.amount(room, name), 0)
        elif total > 0:
            common += lanes.amount(room, name) * 1000 // total
    return devices, common, node.name
