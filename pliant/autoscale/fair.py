"""The policy `fair`: places go to the smallest group first."""

from __future__ import annotations

from pliant.autoscale.filling import planned
from pliant.autoscale.model import Cluster, Elastic, Plan, Verdict
from pliant.autoscale.order import Order, Rank


class Fair:
    """The policy `fair`: nobody could have more unless somebody had less who has no more than that."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "fair"

    def plan(self, cluster: Cluster) -> Plan:
        """The size of every group."""
        return planned(cluster, by_size)

    def bounded(self, elastic: Elastic) -> Elastic:
        """The group as it is: it has use for every member it may have."""
        return elastic

    def order(self, cluster: Cluster) -> Order:
        """The smallest first, whatever cluster it is."""
        return by_size

    def explained(self, elastic: Elastic, verdict: Verdict) -> Verdict:
        """The verdict as it is."""
        return verdict


def by_size(elastic: Elastic) -> Rank:
    """A group is as well off as it has members."""
    return Rank(float)
