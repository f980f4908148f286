"""Who grows first and who gives first: the one question in which policies differ.

A level tells how well off a group is with so many members, as its policy sees it; it rises with every member.
Whoever has the lowest level grows first. One that is at `level(m)` gives a place to one at `level(n)` only if it
is still better off without it: `level(n) < level(m - 1)`. So no place ever goes back: that takes the opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pliant.autoscale.model import Elastic

Level = Callable[[int], float]


class Rank(NamedTuple):
    """How a group compares to others."""

    level: Level
    tie: tuple[int, ...] = ()
    """The lower first among those on one level; the older first among those that are equal even there."""


Order = Callable[[Elastic], Rank]
"""How a policy ranks groups. The same group always has the same rank, whatever others there are."""


def by_size(elastic: Elastic) -> Rank:
    """The smallest group comes first."""
    return Rank(float)


def by_fulfilment(elastic: Elastic) -> Rank:
    """The group that has least of what it may have beyond its least size comes first, then who asks for less."""
    least, span = elastic.least, elastic.most - elastic.least
    needs = dict(elastic.shape.needs)
    devices = sum(amount for name, amount in needs.items() if "/" in name)
    tie = (devices, needs.get("cpu", 0), needs.get("memory", 0))
    return Rank((lambda size: (size - least) / span) if span else _full, tie)


def _full(size: int) -> float:
    return 1.0
