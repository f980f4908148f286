"""Rounds of programs that must know each other exactly: who takes part, at which rank, led by whom.

A round forms while workers join it, and closes for good. A loss or a newcomer opens the next one: those of the
last round learn that it is over, and join again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.master.model import Node, NodeKey, NodeStatus

WORKING_TYPES = ("chief", "worker")
"""Types that take part, in the order of their ranks."""
SILENT = 60.0
FARTHEST = 1_000_000
"""Rounds that a master may have missed; a member that speaks of later ones is mistaken."""
"""Seconds after which somebody who does not ask again waits no longer."""


class Seat(NamedTuple):
    """Somebody's place in a round."""

    key: NodeKey
    rank: int
    """Of the member; its rank in the round is the number of its seat."""
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """When a round that not everybody has joined closes nevertheless."""

    least: int
    gather: float
    patience: float


class Rounds:
    """The last round that closed, and the one that forms."""

    def __init__(self, uid: str, closing: Closing) -> None:
        self._uid = uid
        self._closing = closing
        self.number = 0
        """Of the last round that closed; 0 before the first."""
        self.seats: tuple[Seat, ...] = ()
        self._places: dict[NodeKey, int] = {}
        self._joined: dict[NodeKey, tuple[str, float]] = {}
        """Who waits: its address, and when it last asked."""
        self._last_join = 0.0
        self._nodes: dict[NodeKey, Node] = {}
        self._seen: set[NodeKey] = set()
        self._alive = 0
        self._is_broken = False

    @property
    def id(self) -> str:
        """The last round's own name: the same for all its members, and for no other round of any job."""
        return blake2b(f"{self._uid}/{self.number}".encode(), digest_size=8).hexdigest()

    @property
    def is_open(self) -> bool:
        """Whether a round forms: the last one is over, or there was none."""
        return self._is_broken or bool(self._joined)

    @property
    def may_be_complete(self) -> bool:
        """Whether it is worth looking: as many have joined as there are."""
        return len(self._joined) >= self._alive

    def seat_of(self, key: NodeKey) -> int | None:
        """A member's rank in the last round; None if it did not take part."""
        return self._places.get(key)

    def is_over(self, key: NodeKey, round_: int) -> bool:
        """Whether a member that works in a round must leave it and join the next."""
        if self.number < round_ <= self.number + FARTHEST:
            # Closed by a master whose last moments were not saved: nobody knows its members any more.
            self._sit(round_, ())
            self._is_broken = True
        return round_ < self.number or (self.is_open and key not in self._joined)

    def join(self, key: NodeKey, address: str, now: float) -> None:
        """Have a worker wait for the next round; one that does not ask again now and then is not waited for."""
        if key not in self._joined:
            self._last_join = now
        self._joined[key] = (address, now)

    def leave(self, key: NodeKey) -> None:
        """Do not count upon somebody who no longer waits."""
        self._joined.pop(key, None)

    def observe(self, nodes: Iterable[Node]) -> None:
        """Take note of all members: who fell out of the last round ends it; who succeeded has not fallen out."""
        self._nodes = {node.key: node for node in nodes if node.key.type in WORKING_TYPES}
        # Whose pod was never seen is not gone: programs may be quicker than the news of their pods.
        self._seen |= self._nodes.keys()
        alive = self._keys(NodeStatus.PENDING, NodeStatus.RUNNING)
        self._alive = len(alive)
        for key in self._joined.keys() & self._seen - alive:
            del self._joined[key]
        gone = self._seen - alive - self._keys(NodeStatus.SUCCEEDED)
        if any(seat.key in gone for seat in self.seats):
            self._is_broken = True

    def close(self, now: float) -> bool:
        """Close the round if it is complete, or has waited long enough; tells whether it did."""
        for key in [key for key, (_, asked) in self._joined.items() if now - asked > SILENT]:
            del self._joined[key]
        if not self._joined or not self._is_complete(now - self._last_join):
            return False
        seats = [Seat(key, self._rank(key), address) for key, (address, _) in self._joined.items()]
        seats.sort(key=lambda seat: (WORKING_TYPES.index(seat.key.type), seat.rank, seat.key.id))
        self._sit(self.number + 1, tuple(seats))
        self._joined, self._is_broken = {}, False
        return True

    def _sit(self, number: int, seats: tuple[Seat, ...]) -> None:
        self.number, self.seats = number, seats
        self._places = {seat.key: place for place, seat in enumerate(seats)}

    def _is_complete(self, waited: float) -> bool:
        # Who took part in the last round is still there, unless its pod shows otherwise.
        unseen = self._places.keys() - self._seen
        joined, running = self._joined.keys(), self._keys(NodeStatus.RUNNING) | unseen
        if len(joined) < self._closing.least:
            return False
        if self._nodes and joined >= running | self._keys(NodeStatus.PENDING):
            return True
        if joined >= running and waited >= self._closing.gather:
            return True
        return waited >= self._closing.patience

    def _keys(self, *statuses: NodeStatus) -> set[NodeKey]:
        return {key for key, node in self._nodes.items() if node.status in statuses}

    def _rank(self, key: NodeKey) -> int:
        return self._nodes[key].rank if key in self._nodes else key.id

    def saved(self) -> dict[str, Any]:
        """Everything as a small JSON value; who waits joins again anyway."""
        seats = [[*seat.key, seat.rank, seat.address] for seat in self.seats]
        return {"number": self.number, "seats": seats, "broken": self._is_broken}

    def load(self, value: Mapping[str, Any]) -> None:
        """Go on where another was saved."""
        self._sit(value["number"], tuple(Seat(NodeKey(*seat[:2]), *seat[2:]) for seat in value["seats"]))
        self._is_broken = value["broken"]
        self._seen |= {seat.key for seat in self.seats}
