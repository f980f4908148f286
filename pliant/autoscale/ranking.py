"""Who grows first and who gives first: the one question in which policies differ.

A level tells how well off a group is with so many members, as its policy sees it; it rises with every member.
Whoever has the lowest level grows first. One that is at `level(m)` gives a place to one at `level(n)` only if it
is still better off without it: `level(n) < level(m - 1)`. So no place ever goes back: that takes the opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision

ShareFunction = Callable[[int], float]


class GroupRank(NamedTuple):
    """How a group compares to others."""

    share_at: ShareFunction
    tie_breaker: tuple[int, ...] = ()
    """The lower first among those on one level; the older first among those that are equal even there."""
    sheds_overload: bool = False
    """Whether it shrinks where more is given away than may be, although nobody waits."""


GroupRanking = Callable[[ElasticGroup], GroupRank]
"""How groups are ranked. The same group always has the same rank, whatever others there are."""


class GroupPolicy(Protocol):
    """What a policy thinks of each of the groups that chose it."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        """The group with the most members that are good for it."""

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """How its groups are ranked, at levels about as high as they have members: so they compare with others."""

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        """A verdict on the group as it was before it was bounded, in words of this policy."""
