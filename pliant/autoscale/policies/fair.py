"""The policy `fair`: the smallest group grows first, so sizes are max-min fair."""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup
from pliant.autoscale.ranking import GroupPolicy, GroupRank, GroupRanking


class FairSharePolicy(GroupPolicy):
    name = "fair"

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        return rank_by_size


def rank_by_size(elastic: ElasticGroup) -> GroupRank:
    return GroupRank(float)
