"""The policy `goodput`: capacity goes to the groups whose throughput it increases most.

A group without measurements is assumed to scale linearly. A cluster of such groups is shared as by `fair`, but by
dominant resource share instead of by replica count.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision, SizeReason
from pliant.autoscale.ranking import GroupPolicy, GroupRank, GroupRanking
from pliant.autoscale.speedup import SpeedupCurve, fit_speedup_curve


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputThresholds:
    """How much throughput a replica must add, relative to the throughput per replica at the minimum size."""

    min_gain_to_add: float = 0.2
    min_gain_to_keep: float = 0.1  # less than to add one, so that noisy measurements do not cause resizes
    preemption_margin: float = 1.1  # how much larger the share of a measured group must be before it gives up a replica


class GoodputPolicy(GroupPolicy):
    name = "goodput"

    def __init__(self, thresholds: GoodputThresholds | None = None) -> None:
        self._thresholds = thresholds or GoodputThresholds()

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        max_size = _worthwhile_max_size(elastic, fit_speedup_curve(elastic.throughputs), self._thresholds)
        return elastic if max_size == elastic.max_size else replace(elastic, max_size=max_size)

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """Rank by the speedup of one more replica, relative to its dominant resource share."""
        shares = _dominant_shares(cluster)
        mean_share = sum(shares[each.shape.requests] for each in cluster.groups) / max(len(cluster.groups), 1)
        relative_shares = {requests: share / mean_share for requests, share in shares.items()}
        margin = self._thresholds.preemption_margin

        def rank(elastic: ElasticGroup) -> GroupRank:
            curve = fit_speedup_curve(elastic.throughputs)
            known_size = elastic.size if curve.max_valid_size else 0
            return GroupRank(partial(_share_at, curve, relative_shares[elastic.shape.requests], known_size, margin))

        return rank

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        if decision.reason is not SizeReason.AT_MAX_SIZE or decision.size >= elastic.max_size:
            return decision
        curve, size = fit_speedup_curve(elastic.throughputs), decision.size
        if curve.relative_marginal_gain(size, elastic.min_size) >= self._thresholds.min_gain_to_add:
            reason = f"the throughput of {size} replicas must be measured first"
            return SizeDecision(size, SizeReason.STABILIZING, reason)
        gain_percent = round(100 * (curve.marginal_speedup(size) - 1))
        effect = f"add {gain_percent} % throughput" if gain_percent > 0 else "not increase throughput"
        return SizeDecision(size, SizeReason.NOT_WORTHWHILE, f"one more replica than {size} would {effect}")


def _worthwhile_max_size(elastic: ElasticGroup, curve: SpeedupCurve, thresholds: GoodputThresholds) -> int:
    """Return the largest worthwhile size; existing replicas need a smaller gain than new ones."""
    if not curve.max_valid_size:
        return elastic.max_size
    max_size = _largest_paying_size(elastic, curve, thresholds.min_gain_to_add)
    if elastic.size <= max_size:
        return min(max_size, max(curve.max_valid_size, elastic.size))
    keeps_size = (
        elastic.size <= _largest_paying_size(elastic, curve, thresholds.min_gain_to_keep) or not elastic.may_shrink
    )
    return min(elastic.size, elastic.max_size) if keeps_size else max_size


def _largest_paying_size(elastic: ElasticGroup, curve: SpeedupCurve, min_gain: float) -> int:
    """Return the largest size whose last replica adds enough; each adds less than the one before."""
    sizes = range(elastic.min_size, elastic.max_size)
    return elastic.min_size + bisect_left(
        sizes, True, key=lambda size: curve.relative_marginal_gain(size, elastic.min_size) < min_gain
    )


def _dominant_shares(cluster: ClusterSnapshot) -> dict[tuple[tuple[str, int], ...], float]:
    totals: dict[str, int] = {}
    for node in cluster.nodes:
        for name, amount in node.allocatable.items():
            totals[name] = totals.get(name, 0) + amount
    all_requests = {each.shape.requests for each in cluster.groups}
    return {
        requests: max((amount / max(totals.get(name, 0), 1) for name, amount in requests), default=1.0)
        for requests in all_requests
    }


def _share_at(curve: SpeedupCurve, dominant_share: float, current_size: int, margin: float, size: int) -> float:
    """Return about the number of replicas, weighted: larger where one more replica would add less."""
    if size <= 0:
        return 0.0
    log_speedup = curve.log_marginal_speedup(size)
    if log_speedup <= 0:
        return inf
    # Minus 0.5, so that it equals the size under linear speedup.
    return dominant_share * (1 / log_speedup - 0.5) / (margin if size < current_size else 1.0)
