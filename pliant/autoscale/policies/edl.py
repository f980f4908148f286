"""The policy `edl`: groups have the same part of what they may have, the way PaddlePaddle EDL meant it.

Its order is that of the publication: by fulfilment, then by devices, CPU and memory. What was wrong there is
mended: the order is that of planned sizes, so that shares become even and stay so; the limit on load holds
alike for growing and for shrinking, and not at all for devices; members are planned onto nodes that have room
for them.
"""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision
from pliant.autoscale.ranking import GroupRank, GroupRanking, ShareFunction


class EdlSharePolicy:
    """What `edl` thinks of a group."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "edl"

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        """As it is."""
        return elastic

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """The least fulfilled comes first; its level is what a group of average bounds would have then."""
        groups = [each for each in cluster.groups if each.min_size < each.max_size]
        number = max(len(groups), 1)
        least, most = sum(each.min_size for each in groups) / number, sum(each.max_size for each in groups) / number
        return lambda elastic: _rank_by_fulfilment(elastic, least, most)

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        """As it is."""
        return decision


def _rank_by_fulfilment(elastic: ElasticGroup, mean_min_size: float, mean_max_size: float) -> GroupRank:
    least, span, height = elastic.min_size, elastic.max_size - elastic.min_size, mean_max_size - mean_min_size
    needs = dict(elastic.shape.requests)
    devices = sum(amount for name, amount in needs.items() if "/" in name)
    tie = (devices, needs.get("cpu", 0), needs.get("memory", 0))
    level: ShareFunction = (
        (lambda size: mean_min_size + (size - least) / span * height) if span else (lambda size: mean_max_size)
    )
    return GroupRank(level, tie, sheds_overload=True)
