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
from pliant.master.model import NodeKey

_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}")
_ROUNDS = 4
MOST_SHARDS = 2**48
"""Of one data set; nobody lives to see their end."""

MOST_AHEAD = 100_000
"""Shards that a new master may not know of."""


class Holder(NamedTuple):
    """A process of a member: several may work in one pod. Prints as `worker-3.17`."""

    node: NodeKey
    process: int

    def __str__(self) -> str:
        return f"{self.node}.{self.process}"

    @classmethod
    def parsed(cls, text: str) -> Holder:
        """The holder that prints so."""
        node, _, process = text.rpartition(".")
        kind, _, number = node.rpartition("-")
        return cls(NodeKey(kind, int(number)), int(process))


class Shard(NamedTuple):
    """Records from start up to end, to be learned once in an epoch."""

    position: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """How a data set is cut up."""

    name: str
    size: int
    shard_size: int
    epochs: int = 1
    shuffle: int | None = None
    """The seed by which the order of shards is drawn anew for each epoch; None keeps them in order."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidSpec("name", f"{self.name!r}: letters, digits, `-`, `_` and `.`, at most 63 of them")
        for field in ("size", "shard_size", "epochs"):
            if getattr(self, field) < 1:
                raise InvalidSpec(field, f"must be 1 or more, got {getattr(self, field)}")
        if self.total > MOST_SHARDS:
            raise InvalidSpec("shard_size", f"makes {self.total} shards: take larger ones")

    @property
    def per_epoch(self) -> int:
        """Shards in one epoch."""
        return -(-self.size // self.shard_size)

    @property
    def total(self) -> int:
        """Shards in all epochs."""
        return self.per_epoch * self.epochs

    def shard(self, position: int) -> Shard:
        """The shard at a position."""
        epoch, place = divmod(position, self.per_epoch)
        index = place if self.shuffle is None else shuffled(place, self.per_epoch, f"{self.shuffle}/{epoch}")
        start = index * self.shard_size
        return Shard(position, epoch, start, min(start + self.shard_size, self.size))


class DataSet:
    """One data set and how far it has been learned."""

    def __init__(self, spec: DataSpec) -> None:
        self.spec = spec
        self._next = 0
        self._back: OrderedDict[int, None] = OrderedDict()
        self._held: dict[int, Holder] = {}
        self._holders: dict[Holder, set[int]] = {}

    @property
    def left(self) -> int:
        """Shards that nobody has: never given, or come back."""
        return self.spec.total - self._next + len(self._back)

    @property
    def held(self) -> int:
        """Shards that somebody is at."""
        return len(self._held)

    @property
    def done(self) -> int:
        """Shards that were learned."""
        return self._next - len(self._back) - len(self._held)

    @property
    def is_done(self) -> bool:
        """Whether everything was learned."""
        return self.done == self.spec.total

    def holders(self) -> Iterable[Holder]:
        """Everybody who has a shard."""
        return self._holders.keys()

    def take(self, holder: Holder) -> Shard | None:
        """The next shard, now the holder's; None if all are done or held."""
        if self._back:
            position, _ = self._back.popitem(last=False)
        elif self._next < self.spec.total:
            position = self._next
            self._next += 1
        else:
            return None
        self._hold(position, holder)
        return self.spec.shard(position)

    def finish(self, position: int) -> int:
        """Count a shard as learned, whoever says so and however late; tells how many records that adds."""
        self._check(position)
        if position >= self._next:
            # Given out by a master whose last moments were not saved. Others of that time may be held as well.
            self._reach(position)
        if position in self._back:
            del self._back[position]
        elif position in self._held:
            self._drop(position)
        else:
            return 0  # told before
        shard = self.spec.shard(position)
        return shard.end - shard.start

    def give_back(self, position: int, holder: Holder) -> bool:
        """Put a shard that its holder could not learn behind the others that came back."""
        self._check(position)
        if self._held.get(position) != holder:
            return False  # late: it went to somebody else, or is done
        self._drop(position)
        self._back[position] = None
        return True

    def keep(self, holder: Holder, positions: Iterable[int], *, only: bool = False) -> int:
        """Believe a holder about what it has; with `only`, the rest of its shards goes back: tells how many."""
        claimed = set(positions)
        for position in sorted(claimed):
            self._check(position)
            if position >= self._next:
                self._reach(position)
            if position in self._back:
                del self._back[position]
                self._hold(position, holder)
        if not only or holder not in self._holders:
            return 0
        return self._return(self._holders[holder] - claimed)

    def lose(self, holders: Iterable[Holder]) -> int:
        """Put all shards of some holders at the head of the queue; tells how many."""
        return self._return({position for holder in holders for position in self._holders.get(holder, ())})

    def _return(self, positions: Iterable[int]) -> int:
        returned = sorted(positions, reverse=True)
        for position in returned:
            self._drop(position)
            self._back[position] = None
            self._back.move_to_end(position, last=False)
        return len(returned)

    def _reach(self, position: int) -> None:
        """Move on behind a position; what is skipped waits with the others that came back."""
        for skipped in range(self._next, position + 1):
            self._back[skipped] = None
        self._next = position + 1

    def _check(self, position: int) -> None:
        # A claim beyond what the members can hold would make a list of the whole data set.
        ahead = max(MOST_AHEAD - len(self._back), 1)
        if not 0 <= position < min(self.spec.total, self._next + ahead):
            raise InvalidSpec("position", f"{self.spec.name} has no shard {position} in anybody's hands")

    def _hold(self, position: int, holder: Holder) -> None:
        self._held[position] = holder
        self._holders.setdefault(holder, set()).add(position)

    def _drop(self, position: int) -> None:
        holder = self._held.pop(position)
        positions = self._holders[holder]
        positions.discard(position)
        if not positions:
            del self._holders[holder]

    def saved(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        spec = self.spec
        held = {str(holder): _runs(sorted(positions)) for holder, positions in self._holders.items()}
        return {
            "spec": [spec.name, spec.size, spec.shard_size, spec.epochs, spec.shuffle],
            "next": self._next,
            "back": _runs(self._back),
            "held": held,
        }

    @classmethod
    def loaded(cls, value: Mapping[str, Any]) -> DataSet:
        """A data set that goes on where another was saved."""
        name, size, shard_size, epochs, shuffle = value["spec"]
        found = cls(DataSpec(name=name, size=size, shard_size=shard_size, epochs=epochs, shuffle=shuffle))
        found._next = value["next"]
        found._back = OrderedDict.fromkeys(_members(value["back"]))
        for holder, runs in value["held"].items():
            for position in _members(runs):
                found._hold(position, Holder.parsed(holder))
        return found


def _runs(positions: Iterable[int]) -> list[list[int]]:
    """Neighbours as [first, how many], in the order they come."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([position, 1])
    return runs


def _members(runs: Iterable[list[int]]) -> Iterator[int]:
    for first, count in runs:
        yield from range(first, first + count)


def shuffled(place: int, count: int, seed: str) -> int:
    """Where a place below count goes in an order drawn by the seed; no list is made.

    A small cipher (a Feistel network) is a permutation of the numbers of so many bits; what it throws beyond the
    count is thrown again until it falls inside.
    """
    half = max(1, (count - 1).bit_length() + 1 >> 1)
    mask = (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for turn in range(_ROUNDS):
            digest = blake2b(f"{seed}/{turn}/{right}".encode(), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(digest) & mask)
        place = left << half | right
        if place < count:
            return place
