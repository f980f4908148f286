"""Plans for groups of several policies.

All groups meet in one plan, each ranked by its own policy. The levels of all policies are about as high as groups
have members, so that a place may go from a group of one policy to that of another, and no policy comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, Policy, SizePlan
from pliant.autoscale.planning.draft import PlanDraft
from pliant.autoscale.planning.planner import decide_size
from pliant.autoscale.planning.planner import draft_plan as filled
from pliant.autoscale.policies.edl import EdlSharePolicy
from pliant.autoscale.policies.fair import FairSharePolicy
from pliant.autoscale.policies.goodput import GoodputPolicy
from pliant.autoscale.policies.published_edl import PublishedEdlPolicy
from pliant.autoscale.ranking import GroupPolicy, GroupRank, GroupRanking

_GROUP_POLICIES: tuple[GroupPolicy, ...] = (EdlSharePolicy(), FairSharePolicy(), GoodputPolicy())
GROUP_POLICIES: Mapping[str, GroupPolicy] = {manner.name: manner for manner in _GROUP_POLICIES}
"""What policies think of groups, by name."""


def plan_with_policies(
    cluster: ClusterSnapshot, policy_by_group: Mapping[GroupKey, str], default_policy: str
) -> SizePlan:
    """A plan in which every group is ranked by the policy it chose, the others by default."""
    draft = draft_with_policies(cluster, policy_by_group, default_policy)
    verdicts = {crew.elastic.key: decide_size(crew, draft) for crew in draft.groups}
    return {
        each.key: GROUP_POLICIES[policy_by_group.get(each.key, default_policy)].with_explanation(
            each, verdicts[each.key]
        )
        for each in cluster.groups
    }


def draft_with_policies(
    cluster: ClusterSnapshot, policy_by_group: Mapping[GroupKey, str], default_policy: str
) -> PlanDraft:
    """Where everybody would sit by such a plan."""
    names = {each.key: policy_by_group.get(each.key, default_policy) for each in cluster.groups}
    orders = {name: GROUP_POLICIES[name].build_ranking(cluster) for name in set(names.values())}
    bounded = tuple(GROUP_POLICIES[names[each.key]].with_useful_max_size(each) for each in cluster.groups)
    order = next(iter(orders.values())) if len(orders) == 1 else _combine_rankings(orders, names)
    return filled(replace(cluster, groups=bounded), order)


def _combine_rankings(rankings: Mapping[str, GroupRanking], policy_by_group: Mapping[GroupKey, str]) -> GroupRanking:
    def rank(elastic: ElasticGroup) -> GroupRank:
        return rankings[policy_by_group[elastic.key]](elastic)

    return rank


class UniformPolicy:
    """One policy for all groups."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return self._name

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        """The size of every group."""
        return plan_with_policies(cluster, {}, self._name)


POLICIES: Mapping[str, Policy] = {name: UniformPolicy(name) for name in GROUP_POLICIES}
"""Those that users may choose, by name."""

ALL_POLICIES: Mapping[str, Policy] = {**POLICIES, PublishedEdlPolicy().name: PublishedEdlPolicy()}
"""Those, and what they are compared with."""
