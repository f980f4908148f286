"""The policy `fair`: places go to the smallest group first."""

from __future__ import annotations

from pliant.autoscale.filling import planned
from pliant.autoscale.model import Cluster, Elastic, Plan
from pliant.autoscale.order import Rank


class Fair:
    """The policy `fair`: no group could have more without another having less that has no more than it."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "fair"

    def plan(self, cluster: Cluster) -> Plan:
        """The size of every group."""
        return planned(cluster, _by_size)


def _by_size(elastic: Elastic) -> Rank:
    return Rank(float)
