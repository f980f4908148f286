"""Plans for groups of several policies.

All groups meet in one plan, each ranked by its own policy. The levels of all policies are about as high as groups
have members, so that a place may go from a group of one policy to that of another, and no policy comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pliant.autoscale.draft import Draft
from pliant.autoscale.edl import Edl
from pliant.autoscale.fair import Fair
from pliant.autoscale.filling import drafted as filled
from pliant.autoscale.filling import verdict
from pliant.autoscale.goodput import Goodput
from pliant.autoscale.model import Cluster, Elastic, GroupKey, Plan
from pliant.autoscale.order import Manner, Order, Rank

_MANNERS: tuple[Manner, ...] = (Edl(), Fair(), Goodput())
MANNERS: Mapping[str, Manner] = {manner.name: manner for manner in _MANNERS}
"""What policies think of groups, by name."""


def planned(cluster: Cluster, chosen: Mapping[GroupKey, str], default: str) -> Plan:
    """A plan in which every group is ranked by the policy it chose, the others by default."""
    draft = drafted(cluster, chosen, default)
    verdicts = {crew.elastic.key: verdict(crew, draft) for crew in draft.crews}
    return {
        each.key: MANNERS[chosen.get(each.key, default)].explained(each, verdicts[each.key])
        for each in cluster.elastics
    }


def drafted(cluster: Cluster, chosen: Mapping[GroupKey, str], default: str) -> Draft:
    """Where everybody would sit by such a plan."""
    names = {each.key: chosen.get(each.key, default) for each in cluster.elastics}
    orders = {name: MANNERS[name].order(cluster) for name in set(names.values())}
    bounded = tuple(MANNERS[names[each.key]].bounded(each) for each in cluster.elastics)
    order = next(iter(orders.values())) if len(orders) == 1 else _combined(orders, names)
    return filled(replace(cluster, elastics=bounded), order)


def _combined(orders: Mapping[str, Order], names: Mapping[GroupKey, str]) -> Order:
    def rank(elastic: Elastic) -> Rank:
        return orders[names[elastic.key]](elastic)

    return rank
