"""One decision's worth of facts: the picture, the memory, and what follows from both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from pliant.master.brain.memory import Memory, Place
from pliant.master.brain.tempo import Tempo
from pliant.master.model import JobFacts, Node, NodeKey, NodeStatus, Picture, Resources, RoleSpec, Step

WORKER, CHIEF, EVALUATOR, PS = "worker", "chief", "evaluator", "ps"
SPEAKERS = (CHIEF, WORKER, EVALUATOR)
"""Whose end is the job's; parameter servers never end by themselves."""
SERVED = "ParameterServerStrategy"

Move = tuple[Step | None, Memory]
"""What a remedy answers: a step to take, or only something to remember."""


@dataclass(frozen=True)
class Case:
    """What one decision is made upon."""

    picture: Picture
    memory: Memory
    tempo: Tempo

    @property
    def now(self) -> datetime:
        """The moment of the decision."""
        return self.picture.now

    @property
    def job(self) -> JobFacts:
        """What the author wrote."""
        return self.picture.job

    def with_memory(self, memory: Memory) -> Case:
        """The same, remembered otherwise."""
        return replace(self, memory=memory)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Everybody who was not sent away."""
        gone = frozenset(self.memory.dismissed)
        return tuple(node for node in self.picture.nodes if str(node.key) not in gone)

    @cached_property
    def occupants(self) -> dict[Place, Node]:
        """The newest member at each place."""
        newest: dict[Place, Node] = {}
        for node in self.nodes:
            place = Place(node.key.type, node.rank)
            if place not in newest or newest[place].key.id < node.key.id:
                newest[place] = node
        return newest

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every place that is to be held, the given-up ones left out, in order."""
        return tuple(sorted(place_of(text) for text in self.memory.members if text not in self.memory.dropped))

    def of(self, type_: str, *statuses: NodeStatus) -> list[Node]:
        """Who holds the places of a type, if they are in one of these states, in order of rank."""
        found = [
            node
            for place, node in self.occupants.items()
            if place.type == type_ and str(place) not in self.memory.dropped
        ]
        return sorted((node for node in found if not statuses or node.status in statuses), key=lambda n: n.rank)

    def running(self, type_: str) -> list[Node]:
        """The members of a type that are at work."""
        return self.of(type_, NodeStatus.RUNNING)

    def may_tune(self, type_: str) -> bool:
        """Whether the master may choose what the author left open for a type, or asked it to see to."""
        role = self.job.roles.get(type_)
        return self.job.is_tuned and role is not None and role.may_scale

    def shape(self, type_: str) -> Resources:
        """What a new member of a type asks for."""
        return self.memory.shapes.get(type_) or self.role(type_).resources

    def role(self, type_: str) -> RoleSpec:
        """What the author said of a type, if anything."""
        return self.job.roles.get(type_) or RoleSpec(type=type_)

    def lasted(self, since: datetime | None, seconds: float) -> bool:
        """Whether this long has passed since then; never if there is no then."""
        return since is not None and self.now - since >= timedelta(seconds=seconds)

    def next_keys(self, types: Iterable[str]) -> list[NodeKey]:
        """A key nobody had before, for each of these types in turn."""
        ids, keys = dict(self.memory.ids), []
        for type_ in types:
            ids[type_] = ids.get(type_, -1) + 1
            keys.append(NodeKey(type_, ids[type_]))
        return keys

    def without(self, places: Iterable[Place]) -> Memory:
        """The memory without some places: whoever is still to be seen there, or fell there, is dismissed."""
        gone = set(places)
        names = {str(place) for place in gone}
        there = [str(node.key) for node in self.nodes if Place(node.key.type, node.rank) in gone]
        members = {place: id_ for place, id_ in self.memory.members.items() if place not in names}
        return replace(self.memory, members=members, dismissed=(*self.memory.dismissed, *there))

    def is_critical(self, place: Place) -> bool:
        """Whether the job cannot do without whoever holds this place."""
        if place.type == WORKER:
            return place.rank == 0 and not any(text.startswith(f"{CHIEF}/") for text in self.memory.members)
        return place.type in (CHIEF, EVALUATOR, PS)


def place_of(text: str) -> Place:
    """A place as it was printed."""
    type_, _, rank = text.rpartition("/")
    return Place(type_, int(rank))
