"""The policy `fair`: the smallest group grows first."""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision, SizePlan
from pliant.autoscale.planning.planner import plan_cluster
from pliant.autoscale.ranking import GroupRank, GroupRanking


class FairSharePolicy:
    """The policy `fair`: sizes are max-min fair."""

    @property
    def name(self) -> str:
        return "fair"

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        return plan_cluster(cluster, rank_by_size)

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        return elastic

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        return rank_by_size

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        return decision


def rank_by_size(elastic: ElasticGroup) -> GroupRank:
    return GroupRank(float)
