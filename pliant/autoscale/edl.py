"""The policy `edl`: groups have the same part of what they may have, the way PaddlePaddle EDL meant it.

Its order is that of the publication: by fulfilment, then by devices, CPU and memory. What was wrong there is
mended: the order is that of planned sizes, so that shares become even and stay so; the limit on load holds
alike for growing and for shrinking, and not at all for devices; members are planned onto nodes that have room
for them.
"""

from __future__ import annotations

from pliant.autoscale.model import Cluster, Elastic, Verdict
from pliant.autoscale.order import Level, Order, Rank


class Edl:
    """What `edl` thinks of a group."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "edl"

    def bounded(self, elastic: Elastic) -> Elastic:
        """As it is."""
        return elastic

    def order(self, cluster: Cluster) -> Order:
        """The least fulfilled comes first; its level is what a group of average bounds would have then."""
        groups = [each for each in cluster.elastics if each.least < each.most]
        number = max(len(groups), 1)
        least, most = sum(each.least for each in groups) / number, sum(each.most for each in groups) / number
        return lambda elastic: _rank(elastic, least, most)

    def explained(self, elastic: Elastic, verdict: Verdict) -> Verdict:
        """As it is."""
        return verdict


def _rank(elastic: Elastic, lowest: float, highest: float) -> Rank:
    least, span, height = elastic.least, elastic.most - elastic.least, highest - lowest
    needs = dict(elastic.shape.needs)
    devices = sum(amount for name, amount in needs.items() if "/" in name)
    tie = (devices, needs.get("cpu", 0), needs.get("memory", 0))
    level: Level = (lambda size: lowest + (size - least) / span * height) if span else (lambda size: highest)
    return Rank(level, tie, sheds=True)
