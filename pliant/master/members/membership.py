"""Who is there: the running members in order of rank, with a generation that grows at every change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pliant.master.model import JobMember, MemberKey, MemberStatus

MAX_MISSED_GENERATIONS = 1_000_000
"""Generations that a master may have missed; a member that speaks of later ones is mistaken."""


class MemberInfo(NamedTuple):
    """What others need to know of a member."""

    type: str
    id: int
    rank: int
    address: str


class Membership:
    """The running members."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: tuple[MemberInfo, ...] = ()

    def update_members(self, members: Iterable[JobMember]) -> bool:
        """Take note of all members; tells whether those that run have changed."""
        running = (node for node in members if node.status is MemberStatus.RUNNING)
        found = tuple(
            sorted((MemberInfo(*n.key, n.rank, n.address) for n in running), key=lambda m: (m.type, m.rank, m.id))
        )
        if found == self.members:
            return False
        self.members = found
        self.generation += 1
        return True

    def advance_generation(self, reported_generation: int) -> bool:
        """Go beyond a generation that a member has seen and we have not: our last moments were not saved."""
        if not self.generation < reported_generation <= self.generation + MAX_MISSED_GENERATIONS:
            return False
        self.generation = reported_generation + 1
        return True

    def dump_state(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        return {"generation": self.generation, "members": [list(member) for member in self.members]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where another was saved."""
        self.generation = state["generation"]
        self.members = tuple(MemberInfo(*member) for member in state["members"])


def find_ended_members(known_keys: Iterable[MemberKey], members: Iterable[JobMember]) -> frozenset[MemberKey]:
    """Those that can do no more work: their pods ended, or are no longer there."""
    members = tuple(members)
    alive = {node.key for node in members if node.status in (MemberStatus.PENDING, MemberStatus.RUNNING)}
    return frozenset((*known_keys, *(node.key for node in members))) - alive
