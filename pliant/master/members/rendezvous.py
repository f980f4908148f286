"""Rounds of programs that must know each other exactly: who takes part, at which rank, led by whom.

A round forms while workers join it, and closes for good. A loss or a newcomer opens the next one: those of the
last round learn that it is over, and join again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.master.model import JobMember, MemberKey, MemberStatus

WORKER_TYPES = ("chief", "worker")
"""Types that take part, in the order of their ranks."""
JOIN_TIMEOUT_SECONDS = 60.0
MAX_MISSED_ROUNDS = 1_000_000
"""Rounds that a master may have missed; a member that speaks of later ones is mistaken."""
"""Seconds after which somebody who does not ask again waits no longer."""


class RendezvousSlot(NamedTuple):
    """Somebody's place in a round."""

    key: MemberKey
    rank: int
    """Of the member; its rank in the round is the number of its seat."""
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundClosePolicy:
    """When a round that not everybody has joined closes nevertheless."""

    min_workers: int
    pending_wait_seconds: float
    join_wait_seconds: float


class RendezvousRounds:
    """The last round that closed, and the one that forms."""

    def __init__(self, job_uid: str, close_policy: RoundClosePolicy) -> None:
        self._job_uid = job_uid
        self._close_policy = close_policy
        self.round_number = 0
        """Of the last round that closed; 0 before the first."""
        self.slots: tuple[RendezvousSlot, ...] = ()
        self._ranks: dict[MemberKey, int] = {}
        self._joined: dict[MemberKey, tuple[str, float]] = {}
        """Who waits: its address, and when it last asked."""
        self._last_join = 0.0
        self._members: dict[MemberKey, JobMember] = {}
        self._observed_keys: set[MemberKey] = set()
        self._alive_count = 0
        self._is_broken = False

    @property
    def round_id(self) -> str:
        """The last round's own name: the same for all its members, and for no other round of any job."""
        return blake2b(f"{self._job_uid}/{self.round_number}".encode(), digest_size=8).hexdigest()

    @property
    def is_forming(self) -> bool:
        """Whether a round forms: the last one is over, or there was none."""
        return self._is_broken or bool(self._joined)

    @property
    def may_be_complete(self) -> bool:
        """Whether it is worth looking: as many have joined as there are."""
        return len(self._joined) >= self._alive_count

    def rank_in_round(self, key: MemberKey) -> int | None:
        """A member's rank in the last round; None if it did not take part."""
        return self._ranks.get(key)

    def must_rejoin(self, key: MemberKey, round_number: int) -> bool:
        """Whether a member that works in a round must leave it and join the next."""
        if self.round_number < round_number <= self.round_number + MAX_MISSED_ROUNDS:
            # Closed by a master whose last moments were not saved: nobody knows its members any more.
            self._set_round(round_number, ())
            self._is_broken = True
        return round_number < self.round_number or (self.is_forming and key not in self._joined)

    def join(self, key: MemberKey, address: str, now: float) -> None:
        """Have a worker wait for the next round; one that does not ask again now and then is not waited for."""
        if key not in self._joined:
            self._last_join = now
        self._joined[key] = (address, now)

    def cancel_join(self, key: MemberKey) -> None:
        """Do not count upon somebody who no longer waits."""
        self._joined.pop(key, None)

    def update_members(self, members: Iterable[JobMember]) -> None:
        """Take note of all members: who fell out of the last round ends it; who succeeded has not fallen out."""
        self._members = {node.key: node for node in members if node.key.type in WORKER_TYPES}
        # Whose pod was never seen is not gone: programs may be quicker than the news of their pods.
        self._observed_keys |= self._members.keys()
        alive = self._keys_with_status(MemberStatus.PENDING, MemberStatus.RUNNING)
        self._alive_count = len(alive)
        for key in self._joined.keys() & self._observed_keys - alive:
            del self._joined[key]
        gone = self._observed_keys - alive - self._keys_with_status(MemberStatus.SUCCEEDED)
        if any(seat.key in gone for seat in self.slots):
            self._is_broken = True

    def close_if_ready(self, now: float) -> bool:
        """Close the round if it is complete, or has waited long enough; tells whether it did."""
        for key in [key for key, (_, asked) in self._joined.items() if now - asked > JOIN_TIMEOUT_SECONDS]:
            del self._joined[key]
        if not self._joined or not self._is_ready_to_close(now - self._last_join):
            return False
        seats = [RendezvousSlot(key, self._member_rank(key), address) for key, (address, _) in self._joined.items()]
        seats.sort(key=lambda seat: (WORKER_TYPES.index(seat.key.type), seat.rank, seat.key.id))
        self._set_round(self.round_number + 1, tuple(seats))
        self._joined, self._is_broken = {}, False
        return True

    def _set_round(self, round_number: int, slots: tuple[RendezvousSlot, ...]) -> None:
        self.round_number, self.slots = round_number, slots
        self._ranks = {seat.key: place for place, seat in enumerate(slots)}

    def _is_ready_to_close(self, waited_seconds: float) -> bool:
        # Who took part in the last round is still there, unless its pod shows otherwise.
        unseen = self._ranks.keys() - self._observed_keys
        joined, running = self._joined.keys(), self._keys_with_status(MemberStatus.RUNNING) | unseen
        if len(joined) < self._close_policy.min_workers:
            return False
        if self._members and joined >= running | self._keys_with_status(MemberStatus.PENDING):
            return True
        if joined >= running and waited_seconds >= self._close_policy.pending_wait_seconds:
            return True
        return waited_seconds >= self._close_policy.join_wait_seconds

    def _keys_with_status(self, *statuses: MemberStatus) -> set[MemberKey]:
        return {key for key, node in self._members.items() if node.status in statuses}

    def _member_rank(self, key: MemberKey) -> int:
        return self._members[key].rank if key in self._members else key.id

    def dump_state(self) -> dict[str, Any]:
        """Everything as a small JSON value; who waits joins again anyway."""
        seats = [[*seat.key, seat.rank, seat.address] for seat in self.slots]
        return {"number": self.round_number, "seats": seats, "broken": self._is_broken}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where another was saved."""
        self._set_round(
            state["number"], tuple(RendezvousSlot(MemberKey(*seat[:2]), *seat[2:]) for seat in state["seats"])
        )
        self._is_broken = state["broken"]
        self._observed_keys |= {seat.key for seat in self.slots}
