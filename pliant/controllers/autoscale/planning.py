"""One plan for groups of which some may be set and others only advised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pliant.autoscale.mixing import planned
from pliant.autoscale.model import Cluster, Elastic, GroupKey, Plan

ADVISED = "it is only advised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A cluster to be planned: plain values, for any thread to work on."""

    cluster: Cluster
    policy: str
    """For groups that choose none."""
    chosen: Mapping[GroupKey, str]
    """The policies of those that do."""
    advised: frozenset[GroupKey] = frozenset()
    """Groups that are told what would be right for them, and stay as they are."""

    @property
    def extent(self) -> int:
        """How much there is to plan."""
        return len(self.cluster.nodes) + len(self.cluster.elastics)


def plan(sketch: Sketch) -> Plan:
    """A verdict on every group; those that may be set are planned as if the others stayed, for so they will."""
    cluster = sketch.cluster
    everybody = {each.key for each in cluster.elastics}
    if not sketch.advised or sketch.advised >= everybody:
        return planned(cluster, sketch.chosen, sketch.policy)
    staying = replace(cluster, elastics=tuple(_staying(cluster.elastics, sketch.advised)))
    orders = planned(staying, sketch.chosen, sketch.policy)
    advice = planned(cluster, sketch.chosen, sketch.policy)
    return {key: (advice if key in sketch.advised else orders)[key] for key in everybody}


def _staying(elastics: Iterable[Elastic], advised: frozenset[GroupKey]) -> Iterable[Elastic]:
    for each in elastics:
        yield replace(each, is_fixed=True, note=ADVISED) if each.key in advised else each
