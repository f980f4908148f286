"""The order in which groups grow and shrink: the only thing in which policies differ.

A policy gives each group a share at each size, which grows with the size. The group with the lowest share grows
first. A group at size m gives a replica to a group at size n only if its share stays higher without it:
`share_at(n) < share_at(m - 1)`. So two groups never exchange the same replica back and forth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision

ShareFunction = Callable[[int], float]


class GroupRank(NamedTuple):
    share_at: ShareFunction
    tie_breaker: tuple[int, ...] = ()  # among equal shares the lower one grows first; then the older group
    sheds_overload: bool = False  # whether it shrinks when more than `max_load` is allocated, even without pending pods


GroupRanking = Callable[[ElasticGroup], GroupRank]
"""Ranks groups. The rank of a group does not depend on other groups."""


class GroupPolicy(ABC):
    """A policy as it applies to the groups that selected it."""

    name: str  # the name by which users select it

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        """Return the group with its maximum lowered to the largest size that is worthwhile."""
        return elastic

    @abstractmethod
    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """Return the ranking of its groups; shares are about as large as sizes, to be comparable between policies."""

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        """Return the decision on a group, given its original bounds, with the policy's own explanation."""
        return decision
