"""The policy `fair`: places go to the smallest group first."""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision, SizePlan
from pliant.autoscale.planning.planner import plan_cluster
from pliant.autoscale.ranking import GroupRank, GroupRanking


class FairSharePolicy:
    """The policy `fair`: nobody could have more unless somebody had less who has no more than that."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "fair"

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        """The size of every group."""
        return plan_cluster(cluster, rank_by_size)

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        """The group as it is: it has use for every member it may have."""
        return elastic

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """The smallest first, whatever cluster it is."""
        return rank_by_size

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        """The verdict as it is."""
        return decision


def rank_by_size(elastic: ElasticGroup) -> GroupRank:
    """A group is as well off as it has members."""
    return GroupRank(float)
