"""Hands out the records of a data set in shards, so that every record is learned though workers come and go.

A shard has a position: its number in the order of handing out, through all epochs. What is kept are the first
position that nobody was given yet, those that came back, and those that somebody holds. All others below it are
done. So a data set of any size is remembered in a few bytes per worker.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.master.model import MemberKey

_DATASET_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}")
_FEISTEL_ROUNDS = 4
MAX_SHARDS = 2**48
"""Of one data set; nobody lives to see their end."""

MAX_UNRECORDED_SHARDS = 100_000
"""Shards that a new master may not know of."""


class ShardLeaseHolder(NamedTuple):
    """A process of a member: several may work in one pod. Prints as `worker-3.17`."""

    member: MemberKey
    process: int

    def __str__(self) -> str:
        return f"{self.member}.{self.process}"

    @classmethod
    def parse(cls, text: str) -> ShardLeaseHolder:
        """The holder that prints so."""
        node, _, process = text.rpartition(".")
        kind, _, number = node.rpartition("-")
        return cls(MemberKey(kind, int(number)), int(process))


class DataShard(NamedTuple):
    """Records from start up to end, to be learned once in an epoch."""

    position: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """How a data set is cut up."""

    name: str
    size: int
    shard_size: int
    epochs: int = 1
    shuffle: int | None = None
    """The seed by which the order of shards is drawn anew for each epoch; None keeps them in order."""

    def __post_init__(self) -> None:
        if not _DATASET_NAME.fullmatch(self.name):
            raise InvalidSpec("name", f"{self.name!r}: letters, digits, `-`, `_` and `.`, at most 63 of them")
        for field in ("size", "shard_size", "epochs"):
            if getattr(self, field) < 1:
                raise InvalidSpec(field, f"must be 1 or more, got {getattr(self, field)}")
        if self.total_shards > MAX_SHARDS:
            raise InvalidSpec("shard_size", f"makes {self.total_shards} shards: take larger ones")

    @property
    def shards_per_epoch(self) -> int:
        """Shards in one epoch."""
        return -(-self.size // self.shard_size)

    @property
    def total_shards(self) -> int:
        """Shards in all epochs."""
        return self.shards_per_epoch * self.epochs

    def shard_at(self, position: int) -> DataShard:
        """The shard at a position."""
        epoch, place = divmod(position, self.shards_per_epoch)
        index = (
            place if self.shuffle is None else permute_index(place, self.shards_per_epoch, f"{self.shuffle}/{epoch}")
        )
        start = index * self.shard_size
        return DataShard(position, epoch, start, min(start + self.shard_size, self.size))


class ShardedDataset:
    """One data set and how far it has been learned."""

    def __init__(self, spec: DatasetSpec) -> None:
        self.spec = spec
        self._next_position = 0
        self._returned: OrderedDict[int, None] = OrderedDict()
        self._holder_by_position: dict[int, ShardLeaseHolder] = {}
        self._positions_by_holder: dict[ShardLeaseHolder, set[int]] = {}

    @property
    def available_count(self) -> int:
        """Shards that nobody has: never given, or come back."""
        return self.spec.total_shards - self._next_position + len(self._returned)

    @property
    def held_count(self) -> int:
        """Shards that somebody is at."""
        return len(self._holder_by_position)

    @property
    def done_count(self) -> int:
        """Shards that were learned."""
        return self._next_position - len(self._returned) - len(self._holder_by_position)

    @property
    def is_done(self) -> bool:
        """Whether everything was learned."""
        return self.done_count == self.spec.total_shards

    def holders(self) -> Iterable[ShardLeaseHolder]:
        """Everybody who has a shard."""
        return self._positions_by_holder.keys()

    def take_next(self, holder: ShardLeaseHolder) -> DataShard | None:
        """The next shard, now the holder's; None if all are done or held."""
        if self._returned:
            position, _ = self._returned.popitem(last=False)
        elif self._next_position < self.spec.total_shards:
            position = self._next_position
            self._next_position += 1
        else:
            return None
        self._assign(position, holder)
        return self.spec.shard_at(position)

    def mark_done(self, position: int) -> int:
        """Count a shard as learned, whoever says so and however late; tells how many records that adds."""
        self._check_position(position)
        if position >= self._next_position:
            # Given out by a master whose last moments were not saved. Others of that time may be held as well.
            self._advance_past(position)
        if position in self._returned:
            del self._returned[position]
        elif position in self._holder_by_position:
            self._unassign(position)
        else:
            return 0  # told before
        shard = self.spec.shard_at(position)
        return shard.end - shard.start

    def return_shard(self, position: int, holder: ShardLeaseHolder) -> bool:
        """Put a shard that its holder could not learn behind the others that came back."""
        self._check_position(position)
        if self._holder_by_position.get(position) != holder:
            return False  # late: it went to somebody else, or is done
        self._unassign(position)
        self._returned[position] = None
        return True

    def confirm_held(self, holder: ShardLeaseHolder, positions: Iterable[int], *, release_others: bool = False) -> int:
        """Believe a holder about what it has; with `only`, the rest of its shards goes back: tells how many."""
        claimed = set(positions)
        for position in sorted(claimed):
            self._check_position(position)
            if position >= self._next_position:
                self._advance_past(position)
            if position in self._returned:
                del self._returned[position]
                self._assign(position, holder)
        if not release_others or holder not in self._positions_by_holder:
            return 0
        return self._return_to_front(self._positions_by_holder[holder] - claimed)

    def release_holders(self, holders: Iterable[ShardLeaseHolder]) -> int:
        """Put all shards of some holders at the head of the queue; tells how many."""
        return self._return_to_front(
            {position for holder in holders for position in self._positions_by_holder.get(holder, ())}
        )

    def _return_to_front(self, positions: Iterable[int]) -> int:
        returned = sorted(positions, reverse=True)
        for position in returned:
            self._unassign(position)
            self._returned[position] = None
            self._returned.move_to_end(position, last=False)
        return len(returned)

    def _advance_past(self, position: int) -> None:
        """Move on behind a position; what is skipped waits with the others that came back."""
        for skipped in range(self._next_position, position + 1):
            self._returned[skipped] = None
        self._next_position = position + 1

    def _check_position(self, position: int) -> None:
        # A claim beyond what the members can hold would make a list of the whole data set.
        ahead = max(MAX_UNRECORDED_SHARDS - len(self._returned), 1)
        if not 0 <= position < min(self.spec.total_shards, self._next_position + ahead):
            raise InvalidSpec("position", f"{self.spec.name} has no shard {position} in anybody's hands")

    def _assign(self, position: int, holder: ShardLeaseHolder) -> None:
        self._holder_by_position[position] = holder
        self._positions_by_holder.setdefault(holder, set()).add(position)

    def _unassign(self, position: int) -> None:
        holder = self._holder_by_position.pop(position)
        positions = self._positions_by_holder[holder]
        positions.discard(position)
        if not positions:
            del self._positions_by_holder[holder]

    def dump_state(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        spec = self.spec
        held = {str(holder): _encode_runs(sorted(positions)) for holder, positions in self._positions_by_holder.items()}
        return {
            "spec": [spec.name, spec.size, spec.shard_size, spec.epochs, spec.shuffle],
            "next": self._next_position,
            "back": _encode_runs(self._returned),
            "held": held,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ShardedDataset:
        """A data set that goes on where another was saved."""
        name, size, shard_size, epochs, shuffle = state["spec"]
        found = cls(DatasetSpec(name=name, size=size, shard_size=shard_size, epochs=epochs, shuffle=shuffle))
        found._next_position = state["next"]
        found._returned = OrderedDict.fromkeys(_decode_runs(state["back"]))
        for holder, runs in state["held"].items():
            for position in _decode_runs(runs):
                found._assign(position, ShardLeaseHolder.parse(holder))
        return found


def _encode_runs(positions: Iterable[int]) -> list[list[int]]:
    """Neighbours as [first, how many], in the order they come."""
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
    """Where a place below count goes in an order drawn by the seed; no list is made.

    A small cipher (a Feistel network) is a permutation of the numbers of so many bits; what it throws beyond the
    count is thrown again until it falls inside.
    """
    half = max(1, (count - 1).bit_length() + 1 >> 1)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(_FEISTEL_ROUNDS):
            digest = blake2b(f"{seed}/{turn}/{right}".encode(), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(digest) & mask)
        index = left << half | right
        if index < count:
            return index
