"""All data sets of a job, and who may work on them: a process that falls silent loses its shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from pliant.errors import UserError
from pliant.master.model import NodeKey
from pliant.master.shards import DataSet, DataSpec, Holder, Shard

MOST_SETS = 64


class UnknownSet(UserError):
    """A data set that nobody has registered."""


class UnlikeSet(UserError):
    """A data set is registered again with other numbers."""


class Work:
    """The data sets of a job."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._sets: dict[str, DataSet] = {}
        self._heard: dict[Holder, float] = {}
        self._takers: dict[NodeKey, None] = {}
        self._awaited: set[NodeKey] = set()
        self.returned = 0
        """Shards that came back from those who were lost."""

    @property
    def sets(self) -> Collection[DataSet]:
        """Every data set, in the order of registration."""
        return self._sets.values()

    @property
    def left(self) -> int | None:
        """Shards that nobody has; None without data sets."""
        return sum(data.left for data in self.sets) if self._sets else None

    @property
    def is_done(self) -> bool:
        """Whether there are data sets, and all are learned."""
        return bool(self._sets) and all(data.is_done for data in self.sets)

    def register(self, spec: DataSpec) -> bool:
        """Add a data set; False if it is there already. Raises UnlikeSet if that one is another."""
        known = self._sets.get(spec.name)
        if known is not None and known.spec != spec:
            raise UnlikeSet(_unlike(known.spec, spec))
        if known is None and len(self._sets) >= MOST_SETS:
            raise UnlikeSet(f"there are {MOST_SETS} data sets already; {spec.name!r} is one too many")
        self._sets.setdefault(spec.name, DataSet(spec))
        return known is None

    def find(self, name: str) -> DataSet:
        """A data set by its name."""
        if name not in self._sets:
            raise UnknownSet(f"no data set {name!r}: register it first (POST /v1/datasets)")
        return self._sets[name]

    def hear(self, holder: Holder, now: float) -> None:
        """Take note that a process is alive."""
        self._heard[holder] = now

    def take(self, name: str, holder: Holder) -> Shard | None:
        """The next shard of a data set, now the holder's; None if all are done or held."""
        self._takers[holder.node] = None
        return self.find(name).take(holder)

    def keep(self, holder: Holder, holding: Mapping[str, list[int]]) -> None:
        """Believe a process about the shards it is at; data sets that are not known yet come again."""
        for name in holding.keys() & self._sets.keys():
            self._sets[name].keep(holder, holding[name])

    def finish(self, done: Mapping[str, list[int]]) -> int:
        """Count shards as learned, of any data sets that are known; tells how many records that adds."""
        known = done.keys() & self._sets.keys()
        return sum([self._sets[name].finish(position) for name in known for position in done[name]])

    @property
    def takers(self) -> Collection[NodeKey]:
        """Members that ever took a shard and are still there."""
        return self._takers.keys()

    @property
    def is_waiting(self) -> bool:
        """Whether a new master has yet to hear from some who took shards: what they did it must not give again."""
        return bool(self._awaited)

    def settle(self, nodes: Collection[NodeKey] | None = None) -> bool:
        """Wait no longer for these members to say what they did, or for anybody; tells whether nobody is left."""
        was_waiting = self.is_waiting
        self._awaited = self._awaited.difference(nodes) if nodes is not None else set()
        return was_waiting and not self._awaited

    def lose(self, nodes: Set[NodeKey]) -> int:
        """Take back all shards of members that are gone; tells how many."""
        for node in self._takers.keys() & nodes:
            del self._takers[node]
        return self._take_back(lambda holder: holder.node in nodes) if nodes else 0

    def expire(self, now: float) -> int:
        """Take back the shards of processes that have been silent for too long; tells how many."""
        taken = self._take_back(lambda holder: now - self._heard.setdefault(holder, now) > self._lease)
        for holder in [holder for holder, heard in self._heard.items() if now - heard > 2 * self._lease]:
            del self._heard[holder]
        return taken

    def _take_back(self, is_gone: Callable[[Holder], bool]) -> int:
        taken = 0
        for data in self.sets:
            taken += data.lose([holder for holder in data.holders() if is_gone(holder)])
        self.returned += taken
        return taken

    def saved(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        takers: dict[str, list[int]] = {}
        for node in self._takers:
            takers.setdefault(node.type, []).append(node.id)
        return {"sets": [data.saved() for data in self.sets], "returned": self.returned, "takers": takers}

    def load(self, value: Mapping[str, Any], workers: Collection[NodeKey] = ()) -> None:
        """Go on where another was saved; workers that were there may have taken shards since."""
        found = [DataSet.loaded(data) for data in value["sets"]]
        self._sets = {data.spec.name: data for data in found}
        takers = [NodeKey(kind, number) for kind, numbers in value["takers"].items() for number in numbers]
        self._takers = dict.fromkeys(takers)
        self._awaited = {*takers, *workers} if found else set()
        self.returned = value["returned"]


def _unlike(known: DataSpec, other: DataSpec) -> str:
    fields = ("size", "shard_size", "epochs", "shuffle")
    differing = [field for field in fields if getattr(known, field) != getattr(other, field)]
    told = ", ".join(f"{field} is {getattr(known, field)}, not {getattr(other, field)}" for field in differing)
    return f"data set {known.name!r} was registered otherwise: {told}; give a new data set a name of its own"
