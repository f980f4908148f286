"""The running members with a generation, and rendezvous rounds.

A round is a fixed set of workers with ranks and a leader, for collective communication. It forms while workers join,
and does not change after it has closed. When a worker is lost or a new one arrives, the next round forms: the members
of the last one learn that they must restart, and join again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.master.model import JobMember, MemberKey, MemberStatus

MAX_REPORTED_GENERATION_LEAD = 1_000_000
"""Limit of the generations that a restarted master may not know; a higher number in a report is ignored."""
WORKER_TYPES = ("chief", "worker")  # member types that take part, in the order of their ranks
JOIN_EXPIRY_SECONDS = 60.0  # a worker that does not repeat its request within this time no longer waits
MAX_REPORTED_ROUND_LEAD = 1_000_000
"""Limit of the rounds that a restarted master may not know; a higher number in a report is ignored."""


class MemberInfo(NamedTuple):
    type: str
    id: int
    rank: int
    address: str


class Membership:
    def __init__(self) -> None:
        self.generation = 0
        self.members: tuple[MemberInfo, ...] = ()

    def update_members(self, members: Iterable[JobMember]) -> bool:
        running = (member for member in members if member.status is MemberStatus.RUNNING)
        infos = (MemberInfo(*member.key, member.rank, member.address) for member in running)
        sorted_infos = tuple(sorted(infos, key=lambda info: (info.type, info.rank, info.id)))
        if sorted_infos == self.members:
            return False
        self.members = sorted_infos
        self.generation += 1
        return True

    def advance_past_reported_generation(self, reported_generation: int) -> bool:
        """Advance beyond a reported generation that this master did not save; return whether it advanced."""
        if not self.generation < reported_generation <= self.generation + MAX_REPORTED_GENERATION_LEAD:
            return False
        self.generation = reported_generation + 1
        return True

    def dump_state(self) -> dict[str, Any]:
        return {"generation": self.generation, "members": [list(member) for member in self.members]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.generation = state["generation"]
        self.members = tuple(MemberInfo(*member) for member in state["members"])


def find_ended_members(known_keys: Iterable[MemberKey], members: Iterable[JobMember]) -> frozenset[MemberKey]:
    """Return the members that do no more work: their pods have ended or no longer exist."""
    members = tuple(members)
    alive = {member.key for member in members if member.status in (MemberStatus.PENDING, MemberStatus.RUNNING)}
    return frozenset((*known_keys, *(member.key for member in members))) - alive


class RendezvousParticipant(NamedTuple):
    key: MemberKey
    rank: int  # the rank of the member; its rank in the round is the index of its slot
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundClosePolicy:
    """When a round closes that not all members have joined."""

    min_workers: int
    pending_wait_seconds: float
    join_wait_seconds: float


class RendezvousRounds:
    """The last closed round, and the one that forms."""

    def __init__(self, job_uid: str, close_policy: RoundClosePolicy) -> None:
        self._job_uid = job_uid
        self._close_policy = close_policy
        self.round_number = 0  # the number of the last closed round; 0 before the first
        self.slots: tuple[RendezvousParticipant, ...] = ()
        self._ranks: dict[MemberKey, int] = {}
        self._joined: dict[MemberKey, tuple[str, float]] = {}
        """Address and time of the last request of each waiting worker."""
        self._last_join = 0.0
        self._members: dict[MemberKey, JobMember] = {}
        self._observed_keys: set[MemberKey] = set()
        self._alive_count = 0
        self._is_broken = False

    @property
    def closed_round_id(self) -> str:
        """A unique id of the last round, the same for all its members."""
        return blake2b(f"{self._job_uid}/{self.round_number}".encode(), digest_size=8).hexdigest()

    @property
    def is_next_round_forming(self) -> bool:
        """Whether the next round forms: a member was lost, or workers have joined."""
        return self._is_broken or bool(self._joined)

    @property
    def may_be_complete(self) -> bool:
        return len(self._joined) >= self._alive_count

    def rank_in_closed_round(self, key: MemberKey) -> int | None:
        return self._ranks.get(key)

    def must_rejoin(self, key: MemberKey, round_number: int) -> bool:
        if self.round_number < round_number <= self.round_number + MAX_REPORTED_ROUND_LEAD:
            # An earlier master closed this round and did not save that, so its members are unknown.
            self._set_round(round_number, ())
            self._is_broken = True
        return round_number < self.round_number or (self.is_next_round_forming and key not in self._joined)

    def join_next_round(self, key: MemberKey, address: str, now: float) -> None:
        """Add a worker to the next round, or renew its request."""
        if key not in self._joined:
            self._last_join = now
        self._joined[key] = (address, now)

    def cancel_join(self, key: MemberKey) -> None:
        self._joined.pop(key, None)

    def update_members(self, members: Iterable[JobMember]) -> None:
        """Update the members: a lost member ends the last round, a succeeded one does not."""
        self._members = {member.key: member for member in members if member.key.type in WORKER_TYPES}
        # A member whose pod was never observed is not lost: its program may start before the pod event arrives.
        self._observed_keys |= self._members.keys()
        alive = self._keys_with_status(MemberStatus.PENDING, MemberStatus.RUNNING)
        self._alive_count = len(alive)
        for key in self._joined.keys() & self._observed_keys - alive:
            del self._joined[key]
        gone = self._observed_keys - alive - self._keys_with_status(MemberStatus.SUCCEEDED)
        if any(slot.key in gone for slot in self.slots):
            self._is_broken = True

    def close_round_if_ready(self, now: float) -> bool:
        """Close the round if it is complete or has waited long enough; return whether it was closed."""
        for key in [key for key, (_, joined_at) in self._joined.items() if now - joined_at > JOIN_EXPIRY_SECONDS]:
            del self._joined[key]
        if not self._joined or not self._is_ready_to_close(now - self._last_join):
            return False
        ranks = {key: self._members[key].rank if key in self._members else key.id for key in self._joined}
        slots = [RendezvousParticipant(key, ranks[key], address) for key, (address, _) in self._joined.items()]
        slots.sort(key=lambda slot: (WORKER_TYPES.index(slot.key.type), slot.rank, slot.key.id))
        self._set_round(self.round_number + 1, tuple(slots))
        self._joined, self._is_broken = {}, False
        return True

    def _set_round(self, round_number: int, slots: tuple[RendezvousParticipant, ...]) -> None:
        self.round_number, self.slots = round_number, slots
        self._ranks = {slot.key: index for index, slot in enumerate(slots)}

    def _is_ready_to_close(self, waited_seconds: float) -> bool:
        # Members of the last round are still there unless their pods show otherwise.
        unobserved = self._ranks.keys() - self._observed_keys
        joined, running = self._joined.keys(), self._keys_with_status(MemberStatus.RUNNING) | unobserved
        if len(joined) < self._close_policy.min_workers:
            return False
        if self._members and joined >= running | self._keys_with_status(MemberStatus.PENDING):
            return True
        if joined >= running and waited_seconds >= self._close_policy.pending_wait_seconds:
            return True
        return waited_seconds >= self._close_policy.join_wait_seconds

    def _keys_with_status(self, *statuses: MemberStatus) -> set[MemberKey]:
        return {key for key, member in self._members.items() if member.status in statuses}

    def dump_state(self) -> dict[str, Any]:
        """Return the state as JSON, without waiting workers: they join again."""
        slots = [[*slot.key, slot.rank, slot.address] for slot in self.slots]
        return {"number": self.round_number, "slots": slots, "broken": self._is_broken}

    def load_state(self, state: Mapping[str, Any]) -> None:
        slots = tuple(RendezvousParticipant(MemberKey(*slot[:2]), *slot[2:]) for slot in state["slots"])
        self._set_round(state["number"], slots)
        self._is_broken = state["broken"]
        self._observed_keys |= {slot.key for slot in self.slots}
