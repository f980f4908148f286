"""The registry of policies, and planning with several policies at once.

All groups are planned together, each ranked by its own policy. The shares of all policies are about as large as
sizes, so that replicas can move between groups of different policies and no policy has precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, Policy, SizePlan
from pliant.autoscale.planning.draft import PlanDraft
from pliant.autoscale.planning.planner import decide_size, draft_plan
from pliant.autoscale.policies.edl import EdlSharePolicy
from pliant.autoscale.policies.fair import FairSharePolicy
from pliant.autoscale.policies.goodput import GoodputPolicy
from pliant.autoscale.policies.published_edl import PublishedEdlPolicy
from pliant.autoscale.ranking import GroupPolicy, GroupRank, GroupRanking

_GROUP_POLICIES: tuple[GroupPolicy, ...] = (EdlSharePolicy(), FairSharePolicy(), GoodputPolicy())
GROUP_POLICY_BY_NAME: Mapping[str, GroupPolicy] = {policy.name: policy for policy in _GROUP_POLICIES}


def plan_with_policies(
    cluster: ClusterSnapshot, policy_by_group: Mapping[GroupKey, str], default_policy: str
) -> SizePlan:
    """Plan all groups, each ranked by the policy that it selected or by the default."""
    draft = draft_with_policies(cluster, policy_by_group, default_policy)
    decisions = {group.elastic.key: decide_size(group, draft) for group in draft.groups}
    return {
        each.key: GROUP_POLICY_BY_NAME[policy_by_group.get(each.key, default_policy)].with_explanation(
            each, decisions[each.key]
        )
        for each in cluster.groups
    }


def draft_with_policies(
    cluster: ClusterSnapshot, policy_by_group: Mapping[GroupKey, str], default_policy: str
) -> PlanDraft:
    names = {each.key: policy_by_group.get(each.key, default_policy) for each in cluster.groups}
    rankings = {name: GROUP_POLICY_BY_NAME[name].build_ranking(cluster) for name in set(names.values())}
    bounded = tuple(GROUP_POLICY_BY_NAME[names[each.key]].with_useful_max_size(each) for each in cluster.groups)
    ranking = next(iter(rankings.values())) if len(rankings) == 1 else _combine_rankings(rankings, names)
    return draft_plan(replace(cluster, groups=bounded), ranking)


def _combine_rankings(rankings: Mapping[str, GroupRanking], policy_by_group: Mapping[GroupKey, str]) -> GroupRanking:
    def rank(elastic: ElasticGroup) -> GroupRank:
        return rankings[policy_by_group[elastic.key]](elastic)

    return rank


class UniformPolicy:
    def __init__(self, name: str) -> None:
        self.name = name

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        return plan_with_policies(cluster, {}, self.name)


SELECTABLE_POLICIES: Mapping[str, Policy] = {name: UniformPolicy(name) for name in GROUP_POLICY_BY_NAME}
"""The policies that users can select, by name."""

SIMULATION_POLICIES: Mapping[str, Policy] = {**SELECTABLE_POLICIES, PublishedEdlPolicy().name: PublishedEdlPolicy()}
"""All policies, including the published one for comparison."""
