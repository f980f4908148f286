"""The policy `goodput`: places go to groups that become faster by them.

A group that has never been measured counts as sharing its work alike among any number of members. A cluster of
such groups is shared like by `fair`, but by the room that members take up rather than by their number.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, SizeDecision, SizeReason
from pliant.autoscale.ranking import GroupRank, GroupRanking
from pliant.autoscale.speedup import SpeedupCurve, fit_speedup_curve


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputThresholds:
    """How much a member must add, as a part of what each of the least members does."""

    min_gain_to_add: float = 0.2
    min_gain_to_keep: float = 0.1
    """Less than to join, so that what is measured anew a little differently makes nobody come and go."""
    preemption_margin: float = 1.1
    """How many times as well off a group must be to give a place away, where speeds were measured."""


class GoodputPolicy:
    """What `goodput` thinks of a group."""

    def __init__(self, thresholds: GoodputThresholds | None = None) -> None:
        self._thresholds = thresholds or GoodputThresholds()

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "goodput"

    def with_useful_max_size(self, elastic: ElasticGroup) -> ElasticGroup:
        """With as many members as pay."""
        most = _worthwhile_max_size(elastic, fit_speedup_curve(elastic.throughputs), self._thresholds)
        return elastic if most == elastic.max_size else replace(elastic, max_size=most)

    def build_ranking(self, cluster: ClusterSnapshot) -> GroupRanking:
        """Whoever becomes faster by one more, for the part of the cluster that it takes up, comes first."""
        shares = _dominant_shares(cluster)
        average = sum(shares[each.shape.requests] for each in cluster.groups) / max(len(cluster.groups), 1)
        parts = {needs: share / average for needs, share in shares.items()}
        margin = self._thresholds.preemption_margin

        def rank(elastic: ElasticGroup) -> GroupRank:
            curve = fit_speedup_curve(elastic.throughputs)
            part = parts[elastic.shape.requests]
            return GroupRank(partial(_share_at, curve, part, elastic.size if curve.max_known_size else 0, margin))

        return rank

    def with_explanation(self, elastic: ElasticGroup, decision: SizeDecision) -> SizeDecision:
        """That it is at the most that pays, and what one more would add."""
        if decision.reason is not SizeReason.AT_MAX_SIZE or decision.size >= elastic.max_size:
            return decision
        curve, size = fit_speedup_curve(elastic.throughputs), decision.size
        if curve.marginal_gain(size, elastic.min_size) >= self._thresholds.min_gain_to_add:
            return SizeDecision(
                size, SizeReason.STABILIZING, f"how fast {size} members are is to be measured before more are tried"
            )
        adds = round(100 * (curve.marginal_speedup(size) - 1))
        words = f"add {adds} % to its speed" if adds > 0 else "not make it faster"
        return SizeDecision(size, SizeReason.NOT_WORTHWHILE, f"one more than {size} would {words}")


def _worthwhile_max_size(elastic: ElasticGroup, curve: SpeedupCurve, thresholds: GoodputThresholds) -> int:
    """The most members that pay; those there are pay for longer than newcomers."""
    if not curve.max_known_size:
        return elastic.max_size
    most = _largest_paying_size(elastic, curve, thresholds.min_gain_to_add)
    if elastic.size <= most:
        return min(most, max(curve.max_known_size, elastic.size))
    stays = elastic.size <= _largest_paying_size(elastic, curve, thresholds.min_gain_to_keep) or not elastic.may_shrink
    return min(elastic.size, elastic.max_size) if stays else most


def _largest_paying_size(elastic: ElasticGroup, curve: SpeedupCurve, min_gain: float) -> int:
    """The largest size whose last member adds enough; each adds less than the one before."""
    sizes = range(elastic.min_size, elastic.max_size)
    return elastic.min_size + bisect_left(
        sizes, True, key=lambda size: curve.marginal_gain(size, elastic.min_size) < min_gain
    )


def _dominant_shares(cluster: ClusterSnapshot) -> dict[tuple[tuple[str, int], ...], float]:
    """The part of the whole cluster that a member takes up, of what it takes most of."""
    totals: dict[str, int] = {}
    for node in cluster.nodes:
        for name, amount in node.allocatable.items():
            totals[name] = totals.get(name, 0) + amount
    shapes = {each.shape.requests for each in cluster.groups}
    return {
        needs: max((amount / max(totals.get(name, 0), 1) for name, amount in needs), default=1.0) for needs in shapes
    }


def _share_at(curve: SpeedupCurve, dominant_share: float, current_size: int, margin: float, size: int) -> float:
    """About the members held, if all paid alike: more where the next one would add less."""
    if size <= 0:
        return 0.0
    zeal = curve.log_speedup(size)
    if zeal <= 0:
        return inf
    # Half a member less, and it is their number where work is shared alike.
    return dominant_share * (1 / zeal - 0.5) / (margin if size < current_size else 1.0)
