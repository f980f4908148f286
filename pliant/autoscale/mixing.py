"""Plans for groups of several policies.

All groups meet in one plan, each ranked by its own policy. The levels of all policies are about as high as groups
have members, so that a place may go from a group of one policy to that of another, and no policy comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pliant.autoscale.edl import Edl
from pliant.autoscale.fair import Fair
from pliant.autoscale.filling import planned as filled
from pliant.autoscale.goodput import Goodput
from pliant.autoscale.model import Cluster, Elastic, GroupKey, Plan
from pliant.autoscale.order import Manner, Order, Rank

_MANNERS: tuple[Manner, ...] = (Edl(), Fair(), Goodput())
MANNERS: Mapping[str, Manner] = {manner.name: manner for manner in _MANNERS}
"""What policies think of groups, by name."""


def planned(cluster: Cluster, chosen: Mapping[GroupKey, str], default: str) -> Plan:
    """A plan in which every group is ranked by the policy it chose, the others by default."""
    names = {each.key: chosen.get(each.key, default) for each in cluster.elastics}
    manners = {key: MANNERS[name] for key, name in names.items()}
    orders = {name: MANNERS[name].order(cluster) for name in sorted(set(names.values()))}
    bounded = tuple(manners[each.key].bounded(each) for each in cluster.elastics)
    order = next(iter(orders.values())) if len(orders) == 1 else _combined(orders, names)
    plan = filled(replace(cluster, elastics=bounded), order)
    return {each.key: manners[each.key].explained(each, plan[each.key]) for each in cluster.elastics}


def _combined(orders: Mapping[str, Order], names: Mapping[GroupKey, str]) -> Order:
    def rank(elastic: Elastic) -> Rank:
        return orders[names[elastic.key]](elastic)

    return rank
