"""Who is there: the running members in order of rank, with a generation that grows at every change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pliant.master.model import Node, NodeKey, NodeStatus

FARTHEST = 1_000_000
"""Generations that a master may have missed; a member that speaks of later ones is mistaken."""


class Member(NamedTuple):
    """What others need to know of a member."""

    type: str
    id: int
    rank: int
    address: str


class Membership:
    """The running members."""

    def __init__(self) -> None:
        self.generation = 0
        self.members: tuple[Member, ...] = ()

    def observe(self, nodes: Iterable[Node]) -> bool:
        """Take note of all members; tells whether those that run have changed."""
        running = (node for node in nodes if node.status is NodeStatus.RUNNING)
        found = tuple(
            sorted((Member(*n.key, n.rank, n.address) for n in running), key=lambda m: (m.type, m.rank, m.id))
        )
        if found == self.members:
            return False
        self.members = found
        self.generation += 1
        return True

    def hear(self, generation: int) -> bool:
        """Go beyond a generation that a member has seen and we have not: our last moments were not saved."""
        if not self.generation < generation <= self.generation + FARTHEST:
            return False
        self.generation = generation + 1
        return True

    def saved(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        return {"generation": self.generation, "members": [list(member) for member in self.members]}

    def load(self, value: Mapping[str, Any]) -> None:
        """Go on where another was saved."""
        self.generation = value["generation"]
        self.members = tuple(Member(*member) for member in value["members"])


def gone(before: Iterable[NodeKey], after: Iterable[Node]) -> frozenset[NodeKey]:
    """Those that can do no more work: their pods ended, or are no longer there."""
    after = tuple(after)
    alive = {node.key for node in after if node.status in (NodeStatus.PENDING, NodeStatus.RUNNING)}
    return frozenset((*before, *(node.key for node in after))) - alive
