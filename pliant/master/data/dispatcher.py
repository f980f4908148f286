"""Assigns the shards of all datasets of a job to processes; a process that sends no request loses its shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

from pliant.errors import UserError
from pliant.master.data.shards import DatasetSpec, DataShard, MemberProcess, ShardedDataset
from pliant.master.model import MasterBusy, MemberKey

MAX_DATASETS = 64
MAX_PROCESSES, MAX_PROCESSES_PER_MEMBER = 100_000, 4096
"""Limits of the processes that have sent a request in the last two lease times."""


class UnknownDataset(UserError):
    """A dataset that is not registered."""


class DatasetConflict(UserError):
    """A dataset is registered again with another spec."""


class ShardDispatcher:
    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._datasets: dict[str, ShardedDataset] = {}
        self._renewed_at: dict[MemberProcess, float] = {}
        self._processes_by_member: Counter[MemberKey] = Counter()
        self._is_recovering = False
        self._shard_takers: dict[MemberKey, None] = {}
        self._awaited_members: set[MemberKey] = set()
        self.returned_count = 0  # shards that were taken back from lost members and processes

    @property
    def datasets(self) -> Collection[ShardedDataset]:
        return self._datasets.values()

    @property
    def unassigned_shard_count(self) -> int | None:
        """Shards that are neither assigned nor done; None without datasets."""
        return sum(data.available_count for data in self.datasets) if self._datasets else None

    @property
    def are_datasets_done(self) -> bool:
        return bool(self._datasets) and all(data.is_done for data in self.datasets)

    def register_dataset(self, spec: DatasetSpec) -> bool:
        """Add a dataset; return False if it exists. Raise `DatasetConflict` if it exists with another spec."""
        known = self._datasets.get(spec.name)
        if known is not None and known.spec != spec:
            fields = ("size", "shard_size", "epochs", "shuffle")
            pairs = ((field, getattr(known.spec, field), getattr(spec, field)) for field in fields)
            changes = ", ".join(f"{field} is {old}, not {new}" for field, old, new in pairs if old != new)
            message = f"dataset {spec.name!r} is already registered with another spec: {changes}; use another name"
            raise DatasetConflict(message)
        if known is None and len(self._datasets) >= MAX_DATASETS:
            raise DatasetConflict(f"cannot register {spec.name!r}: a job has at most {MAX_DATASETS} datasets")
        if known is None:
            self._datasets[spec.name] = dataset = ShardedDataset(spec)
            dataset.is_recovering = self._is_recovering
        return known is None

    def get_dataset(self, name: str) -> ShardedDataset:
        if name not in self._datasets:
            raise UnknownDataset(f"dataset {name!r} not found: register it first (POST /v1/datasets)")
        return self._datasets[name]

    def renew_lease(self, holder: MemberProcess, now: float) -> None:
        """Record a request of a process; raise MasterBusy if too many others send requests."""
        if holder not in self._renewed_at:
            if self._processes_by_member[holder.member] >= MAX_PROCESSES_PER_MEMBER:
                raise MasterBusy(f"process: {holder.member} has more than {MAX_PROCESSES_PER_MEMBER} processes")
            if len(self._renewed_at) >= MAX_PROCESSES:
                raise MasterBusy(f"process: the job has more than {MAX_PROCESSES} processes")
            self._processes_by_member[holder.member] += 1
        self._renewed_at[holder] = now

    def take_shard(self, dataset: str, holder: MemberProcess) -> DataShard | None:
        """Assign the next shard of a dataset to a process; return None if no shard is available."""
        self._shard_takers[holder.member] = None
        return self.get_dataset(dataset).take_next(holder)

    def assign_reported_shards(self, holder: MemberProcess, held_positions: Mapping[str, list[int]]) -> None:
        """Assign the shards that a process reports to hold; ignore unknown datasets, which it will report again."""
        for name in held_positions.keys() & self._datasets.keys():
            self._datasets[name].assign_reported_shards(holder, held_positions[name])

    def mark_shards_done(self, done: Mapping[str, list[int]], holder: MemberProcess) -> int:
        """Mark the shards of a holder in known datasets as done; return how many records were added."""
        known = done.keys() & self._datasets.keys()
        return sum([self._datasets[name].mark_shard_done(each, holder) for name in known for each in done[name]])

    @property
    def shard_takers(self) -> Collection[MemberKey]:
        return self._shard_takers.keys()

    @property
    def is_awaiting_reports(self) -> bool:
        """Whether a new master still waits for reports of members that took shards, to assign no shard twice."""
        return bool(self._awaited_members)

    def stop_awaiting_reports(self, keys: Collection[MemberKey] | None = None) -> bool:
        """Stop waiting for these members, or for all; return whether this ended the wait."""
        was_waiting = self.is_awaiting_reports
        self._awaited_members = self._awaited_members.difference(keys) if keys is not None else set()
        return was_waiting and not self._awaited_members

    def release_shards_of_members(self, keys: Set[MemberKey]) -> int:
        """Take back all shards of members that are gone; return how many."""
        for key in self._shard_takers.keys() & keys:
            del self._shard_takers[key]
        return self._release_holders(lambda holder: holder.member in keys) if keys else 0

    def expire_leases(self, now: float) -> int:
        """Take back the shards of processes whose lease has expired; return how many."""
        for data in self.datasets:
            for holder in data.holders() - self._renewed_at.keys():  # assigned by an earlier master
                self._processes_by_member[holder.member] += 1
                self._renewed_at[holder] = now
        released = self._release_holders(lambda holder: now - self._renewed_at[holder] > self._lease_seconds)
        for holder in [holder for holder, at in self._renewed_at.items() if now - at > 2 * self._lease_seconds]:
            self._forget_process(holder)
        return released

    def _forget_process(self, holder: MemberProcess) -> None:
        del self._renewed_at[holder]
        self._processes_by_member[holder.member] -= 1
        if not self._processes_by_member[holder.member]:
            del self._processes_by_member[holder.member]
            self._shard_takers.pop(holder.member, None)

    def end_recovery(self) -> None:
        """Stop accepting reports of shards that only an earlier master may have assigned."""
        if self._is_recovering:
            self._is_recovering = False
            for data in self.datasets:
                data.is_recovering = False

    def _release_holders(self, should_release: Callable[[MemberProcess], bool]) -> int:
        released = 0
        for data in self.datasets:
            released += data.release_shards_of_holders([holder for holder in data.holders() if should_release(holder)])
        self.returned_count += released
        return released

    def dump_state(self) -> dict[str, Any]:
        takers: dict[str, list[int]] = {}
        for key in self._shard_takers:
            takers.setdefault(key.type, []).append(key.id)
        datasets = [data.dump_state() for data in self.datasets]
        return {"datasets": datasets, "returned": self.returned_count, "shard_takers": takers}

    def load_state(self, state: Mapping[str, Any], possible_takers: Collection[MemberKey] = ()) -> None:
        """Restore a saved state; `workers` may have taken shards after it was saved."""
        datasets = [ShardedDataset.from_state(data) for data in state["datasets"]]
        self._datasets = {data.spec.name: data for data in datasets}
        takers = [MemberKey(type_, id_) for type_, ids in state["shard_takers"].items() for id_ in ids]
        self._shard_takers = dict.fromkeys(takers)
        self._awaited_members = {*takers, *possible_takers} if datasets else set()
        self.returned_count = state["returned"]
        self._is_recovering = True
