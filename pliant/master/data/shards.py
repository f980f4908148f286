"""Splits a dataset into shards, so that every record is processed although workers come and go.

The position of a shard is its number in the order of assignment, through all epochs. The state consists of the first
unassigned position, the returned positions and the assigned positions; all others before the first unassigned one
are done. A dataset of any size thus needs a few bytes per worker.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.master.model import MemberKey

_DATASET_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}")
_FEISTEL_ROUNDS = 4
MAX_DATASET_SHARDS = 2**48
MAX_UNRECORDED_SHARDS = 100_000  # limit of positions that a member reports and a new master does not know


class MemberProcess(NamedTuple):
    """A process of a member; a pod may run several. Prints as `worker-3.17`."""

    member: MemberKey
    process: int

    def __str__(self) -> str:
        return f"{self.member}.{self.process}"

    @classmethod
    def parse(cls, text: str) -> MemberProcess:
        member, _, process = text.rpartition(".")
        kind, _, number = member.rpartition("-")
        return cls(MemberKey(kind, int(number)), int(process))


class DataShard(NamedTuple):
    """The records from `start` up to but excluding `end`, in one epoch."""

    position: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    name: str
    size: int
    shard_size: int
    epochs: int = 1
    shuffle: int | None = None  # seed that shuffles the shards of each epoch differently; None keeps their order

    def __post_init__(self) -> None:
        if not _DATASET_NAME.fullmatch(self.name):
            raise InvalidSpec("name", f"{self.name!r}: must be at most 63 letters, digits, `-`, `_` and `.`")
        for field in ("size", "shard_size", "epochs"):
            if getattr(self, field) < 1:
                raise InvalidSpec(field, f"must be at least 1, got {getattr(self, field)}")
        if self.total_shards > MAX_DATASET_SHARDS:
            raise InvalidSpec("shard_size", f"must be larger: {self.total_shards} shards are too many")

    @property
    def shards_per_epoch(self) -> int:
        return -(-self.size // self.shard_size)

    @property
    def total_shards(self) -> int:
        return self.shards_per_epoch * self.epochs

    def shard_at(self, position: int) -> DataShard:
        epoch, index = divmod(position, self.shards_per_epoch)
        if self.shuffle is not None:
            index = permute_index(index, self.shards_per_epoch, f"{self.shuffle}/{epoch}")
        start = index * self.shard_size
        return DataShard(position, epoch, start, min(start + self.shard_size, self.size))


class ShardedDataset:
    def __init__(self, spec: DatasetSpec) -> None:
        self.spec = spec
        self._next_position = 0
        self._returned: OrderedDict[int, MemberProcess | None] = OrderedDict()
        """Positions to assign again, in this order, with their last holder if it is known."""
        self._holder_by_position: dict[int, MemberProcess] = {}
        self._positions_by_holder: dict[MemberProcess, set[int]] = {}
        self.is_recovering = False
        """Whether processes may hold shards that an earlier master assigned after it had saved its state."""

    @property
    def available_count(self) -> int:
        return self.spec.total_shards - self._next_position + len(self._returned)

    @property
    def assigned_count(self) -> int:
        return len(self._holder_by_position)

    @property
    def done_count(self) -> int:
        return self._next_position - len(self._returned) - len(self._holder_by_position)

    @property
    def is_done(self) -> bool:
        return self.done_count == self.spec.total_shards

    def holders(self) -> KeysView[MemberProcess]:
        return self._positions_by_holder.keys()

    def take_next(self, holder: MemberProcess) -> DataShard | None:
        if self._returned:
            position, _ = self._returned.popitem(last=False)
        elif self._next_position < self.spec.total_shards:
            position = self._next_position
            self._next_position += 1
        else:
            return None
        self._assign(position, holder)
        return self.spec.shard_at(position)

    def mark_shard_done(self, position: int, holder: MemberProcess) -> int:
        """Mark a shard as done if this process holds it, however late; return how many records were added."""
        self._check_position(position)
        if position >= self._next_position and self.is_recovering:
            # An earlier master assigned it and did not save that. Other shards of that time may be assigned as well.
            self._advance_past(position)
        if not self.is_recovering and self._last_holder(position) != holder:
            return 0  # reported before, or assigned to another process
        if position in self._returned:
            del self._returned[position]
        elif position in self._holder_by_position:
            self._unassign(position)
        else:
            return 0  # reported before
        shard = self.spec.shard_at(position)
        return shard.end - shard.start

    def return_failed_shard(self, position: int, holder: MemberProcess) -> bool:
        """Take back a shard that its holder could not process; it is assigned again after other returned shards."""
        self._check_position(position)
        if self._holder_by_position.get(position) != holder:
            return False  # late: the shard is assigned to another process, or done
        self._unassign(position)
        self._returned[position] = holder
        return True

    def assign_reported_shards(
        self, holder: MemberProcess, positions: Iterable[int], *, release_others: bool = False
    ) -> int:
        """Assign the shards that their last holder reports to hold.

        With `release_others`, take back its others and return how many.
        """
        claimed = set(positions)
        for position in sorted(claimed):
            self._check_position(position)
            if position >= self._next_position and self.is_recovering:
                self._advance_past(position)
            if position in self._returned and (self.is_recovering or self._returned[position] == holder):
                del self._returned[position]
                self._assign(position, holder)
        if not release_others or holder not in self._positions_by_holder:
            return 0
        return self._return_to_front(self._positions_by_holder[holder] - claimed)

    def release_shards_of_holders(self, holders: Iterable[MemberProcess]) -> int:
        """Take back all shards of some holders, to be assigned first; return how many."""
        positions = {position for holder in holders for position in self._positions_by_holder.get(holder, ())}
        return self._return_to_front(positions)

    def _return_to_front(self, positions: Iterable[int]) -> int:
        returned = sorted(positions, reverse=True)
        for position in returned:
            self._returned[position] = self._unassign(position)
            self._returned.move_to_end(position, last=False)
        return len(returned)

    def _last_holder(self, position: int) -> MemberProcess | None:
        return self._holder_by_position.get(position) or self._returned.get(position)

    def _advance_past(self, position: int) -> None:
        """Set the next position behind a position; positions in between become returned shards."""
        for skipped in range(self._next_position, position + 1):
            self._returned[skipped] = None
        self._next_position = position + 1

    def _check_position(self, position: int) -> None:
        # In a recovery, an unlimited position would create a list of the whole dataset.
        ahead = max(MAX_UNRECORDED_SHARDS - len(self._returned), 1) if self.is_recovering else MAX_DATASET_SHARDS
        if not 0 <= position < min(self.spec.total_shards, self._next_position + ahead):
            raise InvalidSpec("position", f"shard {position} of dataset {self.spec.name} is not assigned")

    def _assign(self, position: int, holder: MemberProcess) -> None:
        self._holder_by_position[position] = holder
        self._positions_by_holder.setdefault(holder, set()).add(position)

    def _unassign(self, position: int) -> MemberProcess:
        holder = self._holder_by_position.pop(position)
        positions = self._positions_by_holder[holder]
        positions.discard(position)
        if not positions:
            del self._positions_by_holder[holder]
        return holder

    def dump_state(self) -> dict[str, Any]:
        spec = self.spec
        held = {str(holder): _encode_runs(sorted(positions)) for holder, positions in self._positions_by_holder.items()}
        return {
            "spec": [spec.name, spec.size, spec.shard_size, spec.epochs, spec.shuffle],
            "next": self._next_position,
            "returned": _encode_runs(self._returned),
            "held": held,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ShardedDataset:
        name, size, shard_size, epochs, shuffle = state["spec"]
        dataset = cls(DatasetSpec(name=name, size=size, shard_size=shard_size, epochs=epochs, shuffle=shuffle))
        dataset.is_recovering = True
        dataset._next_position = state["next"]
        dataset._returned = OrderedDict.fromkeys(_decode_runs(state["returned"]))
        for holder, runs in state["held"].items():
            for position in _decode_runs(runs):
                dataset._assign(position, MemberProcess.parse(holder))
        return dataset


def _encode_runs(positions: Iterable[int]) -> list[list[int]]:
    """Encode consecutive positions as [first, count], in the given order."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([position, 1])
    return runs


def _decode_runs(runs: Iterable[list[int]]) -> Iterator[int]:
    for first, count in runs:
        yield from range(first, first + count)


def permute_index(index: int, count: int, seed: str) -> int:
    """Map an index below `count` to another by a pseudo-random permutation, without a list of them.

    A Feistel network permutes the numbers of a fixed number of bits; it is applied until the result is below `count`.
    """
    half = max(1, (count - 1).bit_length() + 1 >> 1)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for round_number in range(_FEISTEL_ROUNDS):
            digest = blake2b(f"{seed}/{round_number}/{right}".encode(), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(digest) & mask)
        index = left << half | right
        if index < count:
            return index
