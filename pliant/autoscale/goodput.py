"""The policy `goodput`: places go to groups that become faster by them.

A group that has never been measured counts as sharing its work alike among any number of members. A cluster of
such groups is shared like by `fair`, but by the room that members take up rather than by their number.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from pliant.autoscale.curves import Curve, fitted
from pliant.autoscale.model import Cluster, Code, Elastic, Verdict
from pliant.autoscale.order import Order, Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """How much a member must add, as a part of what each of the least members does."""

    to_join: float = 0.2
    to_stay: float = 0.1
    """Less than to join, so that what is measured anew a little differently makes nobody come and go."""
    to_take: float = 1.1
    """How many times as well off a group must be to give a place away, where speeds were measured."""


class Goodput:
    """What `goodput` thinks of a group."""

    def __init__(self, yields: Yield | None = None) -> None:
        self._yields = yields or Yield()

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "goodput"

    def bounded(self, elastic: Elastic) -> Elastic:
        """With as many members as pay."""
        most = _worthwhile(elastic, fitted(elastic.speeds), self._yields)
        return elastic if most == elastic.most else replace(elastic, most=most)

    def order(self, cluster: Cluster) -> Order:
        """Whoever becomes faster by one more, for the part of the cluster that it takes up, comes first."""
        shares = _shares(cluster)
        average = sum(shares[each.shape.needs] for each in cluster.elastics) / max(len(cluster.elastics), 1)
        parts = {needs: share / average for needs, share in shares.items()}
        margin = self._yields.to_take

        def rank(elastic: Elastic) -> Rank:
            curve = fitted(elastic.speeds)
            part = parts[elastic.shape.needs]
            return Rank(partial(_level, curve, part, elastic.size if curve.reach else 0, margin))

        return rank

    def explained(self, elastic: Elastic, verdict: Verdict) -> Verdict:
        """That it is at the most that pays, and what one more would add."""
        if verdict.code is not Code.MOST or verdict.size >= elastic.most:
            return verdict
        curve, size = fitted(elastic.speeds), verdict.size
        if curve.worth(size, elastic.least) >= self._yields.to_join:
            return Verdict(
                size, Code.SETTLING, f"how fast {size} members are is to be measured before more are tried"
            )
        adds = round(100 * (curve.ratio(size) - 1))
        words = f"add {adds} % to its speed" if adds > 0 else "not make it faster"
        return Verdict(size, Code.SLOWS, f"one more than {size} would {words}")


def _worthwhile(elastic: Elastic, curve: Curve, yields: Yield) -> int:
    """The most members that pay; those there are pay for longer than newcomers."""
    if not curve.reach:
        return elastic.most
    most = _paying(elastic, curve, yields.to_join)
    if elastic.size <= most:
        return min(most, max(curve.reach, elastic.size))
    stays = elastic.size <= _paying(elastic, curve, yields.to_stay) or not elastic.may_shrink
    return min(elastic.size, elastic.most) if stays else most


def _paying(elastic: Elastic, curve: Curve, enough: float) -> int:
    """The largest size whose last member adds enough; each adds less than the one before."""
    sizes = range(elastic.least, elastic.most)
    return elastic.least + bisect_left(sizes, True, key=lambda size: curve.worth(size, elastic.least) < enough)


def _shares(cluster: Cluster) -> dict[tuple[tuple[str, int], ...], float]:
    """The part of the whole cluster that a member takes up, of what it takes most of."""
    totals: dict[str, int] = {}
    for node in cluster.nodes:
        for name, amount in node.room.items():
            totals[name] = totals.get(name, 0) + amount
    shapes = {each.shape.needs for each in cluster.elastics}
    return {
        needs: max((amount / max(totals.get(name, 0), 1) for name, amount in needs), default=1.0)
        for needs in shapes
    }


def _level(curve: Curve, part: float, present: int, margin: float, size: int) -> float:
    """About the members held, if all paid alike: more where the next one would add less."""
    if size <= 0:
        return 0.0
    zeal = curve.zeal(size)
    if zeal <= 0:
        return inf
    # Half a member less, and it is their number where work is shared alike.
    return part * (1 / zeal - 0.5) / (margin if size < present else 1.0)
