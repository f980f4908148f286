"""The policy `edl`: every group gets the same fraction of its range, as intended by PaddlePaddle EDL.

The order is that of the publication: by fulfilment, then by devices, CPU and memory. Its defects are fixed: shares
follow planned sizes, so that they converge; the load limit applies equally to growing and shrinking, and not to
devices; replicas are planned on nodes that have room for them.
"""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup
from pliant.autoscale.ranking import GroupPolicy, GroupRank, GroupRanking, ShareFunction


class EdlSharePolicy(GroupPolicy):
    name = "edl"

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """Rank by fulfilment; the share is the size that a group with average bounds would have."""
        groups = [each for each in cluster.groups if each.min_size < each.max_size]
        count = max(len(groups), 1)
        mean_min = sum(each.min_size for each in groups) / count
        mean_max = sum(each.max_size for each in groups) / count
        return lambda elastic: _rank_by_fulfilment(elastic, mean_min, mean_max)


def _rank_by_fulfilment(elastic: ElasticGroup, mean_min_size: float, mean_max_size: float) -> GroupRank:
    min_size, span, height = elastic.min_size, elastic.max_size - elastic.min_size, mean_max_size - mean_min_size
    requests = dict(elastic.shape.requests)
    devices = sum(amount for name, amount in requests.items() if "/" in name)
    tie_breaker = (devices, requests.get("cpu", 0), requests.get("memory", 0))
    share_at: ShareFunction = (
        (lambda size: mean_min_size + (size - min_size) / span * height) if span else (lambda size: mean_max_size)
    )
    return GroupRank(share_at, tie_breaker, sheds_overload=True)
