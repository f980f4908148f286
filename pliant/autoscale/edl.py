"""The policy `edl`: groups have the same part of what they may have, the way PaddlePaddle EDL meant it.

Its order is that of the publication: by fulfilment, then by devices, CPU and memory. What was wrong there is
mended: the order is that of planned sizes, so that shares become even and stay so; the limit on load holds
alike for growing and for shrinking, and not at all for devices; members are planned onto nodes that have room
for them.
"""

from __future__ import annotations

from pliant.autoscale.model import Cluster, Elastic, Verdict
from pliant.autoscale.order import Order, Rank


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
        """The least fulfilled comes first; one that has all it may is at the level of an average group's most."""
        spans = [elastic.most - elastic.least for elastic in cluster.elastics if elastic.least < elastic.most]
        scale = sum(spans) / len(spans) if spans else 1.0
        return lambda elastic: _rank(elastic, scale)

    def explained(self, elastic: Elastic, verdict: Verdict) -> Verdict:
        """As it is."""
        return verdict


def _rank(elastic: Elastic, scale: float) -> Rank:
    least, span = elastic.least, elastic.most - elastic.least
    needs = dict(elastic.shape.needs)
    devices = sum(amount for name, amount in needs.items() if "/" in name)
    tie = (devices, needs.get("cpu", 0), needs.get("memory", 0))
    return Rank((lambda size: (size - least) / span * scale) if span else (lambda size: scale), tie, sheds=True)
