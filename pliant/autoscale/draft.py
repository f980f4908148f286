"""A plan in the making: the floor, everybody on it, and what may be taken back."""

from __future__ import annotations

from pliant.autoscale.crews import ANYWHERE, Crew, sit_down
from pliant.autoscale.model import Claim, Cluster, Code, Shape
from pliant.autoscale.order import Order
from pliant.autoscale.packing import LIMITED, Floor
from pliant.autoscale.quota import purses
from pliant.autoscale.words import needs_in_words

Reason = tuple[Code, str]


class Draft:
    """Where everybody would sit."""

    def __init__(self, cluster: Cluster, order: Order) -> None:
        self.cluster = cluster
        self.floor = floor = Floor(cluster)
        footprint = floor.footprint
        self.crews = [Crew(each, order(each), footprint(each.shape)) for each in cluster.elastics]
        self.crews.sort(key=_importance)
        self.arrivals: list[tuple[Claim, int]] = []
        """Where pods would go that wait and are no members of any crew."""
        self._said: dict[Shape, str] = {}
        limits = purses(cluster, floor.lanes)
        for number, crew in enumerate(self.crews):
            crew.number = number
            sit_down(crew, floor)
            crew.purse = limits.get(crew.elastic.key.namespace) if limits else None
            if crew.purse:
                for _ in crew.seats:
                    crew.purse.take(crew.foot)
            while len(crew.seats) > crew.elastic.most and not crew.is_fixed:
                self.drop(crew)

    def add(self, crew: Crew, node: int) -> None:
        """Have one more member sit there."""
        self.floor.take(crew.foot, node)
        if crew.purse:
            crew.purse.take(crew.foot)
        crew.seats.append(node)

    def drop(self, crew: Crew) -> int:
        """Have the last member leave; the node it leaves."""
        node = crew.seats.pop()
        self.floor.give(crew.foot, node)
        if crew.purse:
            crew.purse.give(crew.foot)
        return node

    def place(self, crew: Crew) -> int | None:
        """Where one more member could sit, limits of load and quota aside."""
        home = crew.home
        if home == ANYWHERE:
            return self.floor.where(crew.foot)
        return home if home == self.floor.nowhere or self.floor.is_room(crew.foot, home) else None

    def limit(self, crew: Crew) -> Code | None:
        """The kind of limit that one more member would break, wherever it sat."""
        if crew.purse and not crew.purse.may_take(crew.foot):
            return Code.QUOTA
        return None if self.floor.is_within_load(crew.foot) else Code.FULL

    def obstacle(self, crew: Crew) -> Reason:
        """Why no more can come."""
        if crew.purse and not crew.purse.may_take(crew.foot):
            return Code.QUOTA, f"the quota of namespace {crew.elastic.key.namespace} is used up"
        floor, shape = self.floor, crew.foot.shape
        if floor.is_within_load(crew.foot) or self.place(crew) is None:
            return Code.FULL, f"no node has {self._words(shape)} free"
        short = (
            name
            for name, amount in shape.needs
            if name in LIMITED and amount > floor.lanes.amount(floor.slack, name)
        )
        return Code.FULL, too_much(next(short), self.cluster.load)

    def _words(self, shape: Shape) -> str:
        if shape not in self._said:
            self._said[shape] = needs_in_words(shape)
        return self._said[shape]


def too_much(name: str, load: float) -> str:
    """That no more of a resource may be given away."""
    return f"no more than {load:.0%} of all {'CPU' if name == 'cpu' else name} may be given away"


def _importance(crew: Crew) -> tuple[object, ...]:
    return -crew.priority, crew.tie, crew.elastic.since, crew.elastic.key
