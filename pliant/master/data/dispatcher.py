"""All data sets of a job, and who may work on them: a process that falls silent loses its shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from pliant.errors import UserError
from pliant.master.data.shards import DatasetSpec, DataShard, ShardedDataset, ShardLeaseHolder
from pliant.master.model import MemberKey

MAX_DATASETS = 64


class UnknownDataset(UserError):
    """A data set that nobody has registered."""


class DatasetConflict(UserError):
    """A data set is registered again with other numbers."""


class ShardDispatcher:
    """The data sets of a job."""

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._datasets: dict[str, ShardedDataset] = {}
        self._renewed_at: dict[ShardLeaseHolder, float] = {}
        self._shard_takers: dict[MemberKey, None] = {}
        self._awaited_members: set[MemberKey] = set()
        self.returned_count = 0
        """Shards that came back from those who were lost."""

    @property
    def datasets(self) -> Collection[ShardedDataset]:
        """Every data set, in the order of registration."""
        return self._datasets.values()

    @property
    def shards_left(self) -> int | None:
        """Shards that nobody has; None without data sets."""
        return sum(data.available_count for data in self.datasets) if self._datasets else None

    @property
    def is_done(self) -> bool:
        """Whether there are data sets, and all are learned."""
        return bool(self._datasets) and all(data.is_done for data in self.datasets)

    def register_dataset(self, spec: DatasetSpec) -> bool:
        """Add a data set; False if it is there already. Raises UnlikeSet if that one is another."""
        known = self._datasets.get(spec.name)
        if known is not None and known.spec != spec:
            raise DatasetConflict(_describe_conflict(known.spec, spec))
        if known is None and len(self._datasets) >= MAX_DATASETS:
            raise DatasetConflict(f"there are {MAX_DATASETS} data sets already; {spec.name!r} is one too many")
        self._datasets.setdefault(spec.name, ShardedDataset(spec))
        return known is None

    def get_dataset(self, name: str) -> ShardedDataset:
        """A data set by its name."""
        if name not in self._datasets:
            raise UnknownDataset(f"no data set {name!r}: register it first (POST /v1/datasets)")
        return self._datasets[name]

    def renew_lease(self, holder: ShardLeaseHolder, now: float) -> None:
        """Take note that a process is alive."""
        self._renewed_at[holder] = now

    def take_shard(self, dataset: str, holder: ShardLeaseHolder) -> DataShard | None:
        """The next shard of a data set, now the holder's; None if all are done or held."""
        self._shard_takers[holder.member] = None
        return self.get_dataset(dataset).take_next(holder)

    def confirm_held(self, holder: ShardLeaseHolder, held_positions: Mapping[str, list[int]]) -> None:
        """Believe a process about the shards it is at; data sets that are not known yet come again."""
        for name in held_positions.keys() & self._datasets.keys():
            self._datasets[name].confirm_held(holder, held_positions[name])

    def mark_done(self, done: Mapping[str, list[int]]) -> int:
        """Count shards as learned, of any data sets that are known; tells how many records that adds."""
        known = done.keys() & self._datasets.keys()
        return sum([self._datasets[name].mark_done(position) for name in known for position in done[name]])

    @property
    def shard_takers(self) -> Collection[MemberKey]:
        """Members that ever took a shard and are still there."""
        return self._shard_takers.keys()

    @property
    def is_awaiting_reports(self) -> bool:
        """Whether a new master has yet to hear from some who took shards: what they did it must not give again."""
        return bool(self._awaited_members)

    def stop_awaiting_reports(self, keys: Collection[MemberKey] | None = None) -> bool:
        """Wait no longer for these members to say what they did, or for anybody; tells whether nobody is left."""
        was_waiting = self.is_awaiting_reports
        self._awaited_members = self._awaited_members.difference(keys) if keys is not None else set()
        return was_waiting and not self._awaited_members

    def release_members(self, keys: Set[MemberKey]) -> int:
        """Take back all shards of members that are gone; tells how many."""
        for node in self._shard_takers.keys() & keys:
            del self._shard_takers[node]
        return self._release_holders(lambda holder: holder.member in keys) if keys else 0

    def expire_leases(self, now: float) -> int:
        """Take back the shards of processes that have been silent for too long; tells how many."""
        taken = self._release_holders(
            lambda holder: now - self._renewed_at.setdefault(holder, now) > self._lease_seconds
        )
        for holder in [holder for holder, heard in self._renewed_at.items() if now - heard > 2 * self._lease_seconds]:
            del self._renewed_at[holder]
        return taken

    def _release_holders(self, should_release: Callable[[ShardLeaseHolder], bool]) -> int:
        taken = 0
        for data in self.datasets:
            taken += data.release_holders([holder for holder in data.holders() if should_release(holder)])
        self.returned_count += taken
        return taken

    def dump_state(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        takers: dict[str, list[int]] = {}
        for node in self._shard_takers:
            takers.setdefault(node.type, []).append(node.id)
        return {
            "sets": [data.dump_state() for data in self.datasets],
            "returned": self.returned_count,
            "takers": takers,
        }

    def load_state(self, state: Mapping[str, Any], workers: Collection[MemberKey] = ()) -> None:
        """Go on where another was saved; workers that were there may have taken shards since."""
        found = [ShardedDataset.from_state(data) for data in state["sets"]]
        self._datasets = {data.spec.name: data for data in found}
        takers = [MemberKey(kind, number) for kind, numbers in state["takers"].items() for number in numbers]
        self._shard_takers = dict.fromkeys(takers)
        self._awaited_members = {*takers, *workers} if found else set()
        self.returned_count = state["returned"]


def _describe_conflict(registered: DatasetSpec, other: DatasetSpec) -> str:
    fields = ("size", "shard_size", "epochs", "shuffle")
    differing = [field for field in fields if getattr(registered, field) != getattr(other, field)]
    told = ", ".join(f"{field} is {getattr(registered, field)}, not {getattr(other, field)}" for field in differing)
    return f"data set {registered.name!r} was registered otherwise: {told}; give a new data set a name of its own"
