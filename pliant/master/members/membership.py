"""The running members of a job in order of rank, with a generation that increases with every change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pliant.master.model import JobMember, MemberKey, MemberStatus

MAX_MISSED_GENERATIONS = 1_000_000
"""Limit of the generations that a restarted master may not know; a higher number in a report is ignored."""


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
        """Update the members; return whether the running ones have changed."""
        running = (member for member in members if member.status is MemberStatus.RUNNING)
        infos = (MemberInfo(*member.key, member.rank, member.address) for member in running)
        sorted_infos = tuple(sorted(infos, key=lambda info: (info.type, info.rank, info.id)))
        if sorted_infos == self.members:
            return False
        self.members = sorted_infos
        self.generation += 1
        return True

    def advance_generation(self, reported_generation: int) -> bool:
        """Advance beyond a reported generation that this master did not save; return whether it advanced."""
        if not self.generation < reported_generation <= self.generation + MAX_MISSED_GENERATIONS:
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
