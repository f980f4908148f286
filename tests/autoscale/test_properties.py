"""What holds for any cluster and any policy.

A plan keeps bounds, stays within what fits, lets in who must have room, and comes to rest when it is carried out.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, Policy
from pliant.autoscale.planning.capacity import LOAD_LIMITED_RESOURCES, NodeCapacity
from pliant.autoscale.planning.draft import PlanDraft
from pliant.autoscale.planning.planned_group import UNPINNED, PlannedGroup, has_resource_requests
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES, draft_with_policies
from tests.autoscale.clusters import carried_out, scheduled
from tests.autoscale.pictures import clusters

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "pods")
each_policy = pytest.mark.parametrize("policy", SELECTABLE_POLICIES.values(), ids=lambda each: each.name)


def draft_of(policy: Policy, cluster: ClusterSnapshot) -> PlanDraft:
    return draft_with_policies(cluster, {}, policy.name)


def sizes(cluster: ClusterSnapshot) -> dict[object, int]:
    return {each.key: each.size for each in cluster.groups}


def planned_sizes(policy: Policy, cluster: ClusterSnapshot) -> dict[object, int]:
    plan = policy.plan(cluster)
    assert list(plan) == list(dict.fromkeys(plan))
    assert set(plan) == {each.key for each in cluster.groups}
    return {key: verdict.size for key, verdict in plan.items()}


@each_policy
@given(clusters())
def test_sizes_keep_to_their_bounds(policy: Policy, cluster: ClusterSnapshot) -> None:
    after = planned_sizes(policy, cluster)
    for each in cluster.groups:
        size = after[each.key]
        if each.is_fixed or not has_resource_requests(each):
            assert size == each.size
            continue
        assert size <= each.max_size
        assert size >= min(each.min_size, each.size)
        assert each.may_grow or size <= max(each.size, each.min_size)


def placed(each: ElasticGroup) -> int:
    """How many members have a node."""
    return sum(map(bool, each.replica_nodes[: each.size]))


def without_waiting(cluster: ClusterSnapshot) -> ClusterSnapshot:
    """Without groups that must keep their size although members wait: nobody says that those fit."""
    able = [each for each in cluster.groups if each.may_shrink and not each.is_fixed and has_resource_requests(each)]
    return replace(cluster, groups=tuple(able))


@each_policy
@given(clusters())
def test_nothing_is_planned_that_does_not_fit(policy: Policy, cluster: ClusterSnapshot) -> None:
    before, after = NodeCapacity(cluster), (draft := draft_of(policy, cluster)).capacity
    for crew in draft.groups:
        newcomers = {seat for seat in crew.replica_nodes if seat != after.unknown_node} - set(crew.pinned_nodes)
        assert all(after.schedulable_nodes[seat] and crew.footprint.allowed_nodes[seat] for seat in newcomers)
    for name, seat in after.node_positions.items():
        for resource in RESOURCES:
            had = before.layout.amount_of(before.free_vectors[before.node_positions[name]], resource)
            assert after.layout.amount_of(after.free_vectors[seat], resource) >= min(0, had)


@each_policy
@given(clusters())
def test_no_more_is_given_away_than_may_be(policy: Policy, cluster: ClusterSnapshot) -> None:
    cluster = without_waiting(cluster)
    before, after = NodeCapacity(cluster), (draft := draft_of(policy, cluster)).capacity
    must = Counter[str]()
    for claim, _ in draft.placed_pods:
        must.update(dict(claim.shape.requests))
    for crew in draft.groups:
        homes = [*crew.pinned_nodes, *[UNPINNED] * crew.min_size][: min(crew.min_size, len(crew.replica_nodes))]
        must.update({name: amount * homes.count(UNPINNED) for name, amount in crew.footprint.shape.requests})
    for resource in LOAD_LIMITED_RESOURCES:
        had = before.layout.amount_of(before.load_headroom, resource) - must[resource]
        assert after.layout.amount_of(after.load_headroom, resource) >= min(0, had)


@each_policy
@given(clusters())
def test_quotas_are_kept(policy: Policy, cluster: ClusterSnapshot) -> None:
    cluster = without_waiting(cluster)
    used, had = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for crew in draft_of(policy, cluster).groups:
        for resource, amount in crew.footprint.shape.requests:
            used[crew.elastic.key.namespace, resource] += amount * len(crew.replica_nodes)
            had[crew.elastic.key.namespace, resource] += amount * placed(crew.elastic)
    for namespace, limits in cluster.quotas.items():
        for resource, limit in limits.items():
            assert used[namespace, resource] <= max(limit, had[namespace, resource])


@each_policy
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_a_picture_does_not_matter(
    policy: Policy, cluster: ClusterSnapshot, chance: random.Random
) -> None:
    def shuffled(part: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(chance.sample(part, len(part)))

    nodes, elastics, claims = map(shuffled, (cluster.nodes, cluster.groups, cluster.pending_pods))
    other = replace(cluster, nodes=nodes, groups=elastics, pending_pods=claims)
    assert policy.plan(cluster) == policy.plan(other)


@each_policy
@given(clusters())
def test_a_plan_that_was_carried_out_comes_to_rest(policy: Policy, cluster: ClusterSnapshot) -> None:
    for _ in range(4):
        after = carried_out(cluster, draft_of(policy, cluster))
        if sizes(after) == sizes(cluster):
            break
        cluster = after
    else:
        pytest.fail("sizes change and change")
    assert planned_sizes(policy, after) == sizes(after)


@each_policy
@given(clusters())
def test_plans_come_to_rest_wherever_pods_are_put(policy: Policy, cluster: ClusterSnapshot) -> None:
    for _ in range(12):
        after = scheduled(cluster, policy.plan(cluster))
        if after == cluster:
            return
        cluster = after
    pytest.fail("sizes change and change")


def could_come(crew: PlannedGroup, draft: PlanDraft, number: int) -> bool:
    """Whether a node has room for one of these, if all left who are no more important and may."""
    foot, floor = crew.footprint, NodeCapacity(draft.cluster)
    if not foot.allowed_nodes[number]:
        return False
    name = draft.capacity.node_names[number]
    free = floor.free_vectors[floor.node_positions[name]]
    for other in draft.groups:
        if other is not crew and other.priority <= crew.priority and not other.is_fixed:
            places = other.elastic.replica_nodes[other.min_size : other.elastic.size]
            free += other.footprint.request_vector * places.count(name)
    return free - foot.request_vector & foot.sign_bits == foot.sign_bits


def is_newcomer(each: ElasticGroup) -> bool:
    there = sum(map(bool, each.replica_nodes[: min(each.size, each.min_size)]))
    return each.min_size - there == 1 and not each.is_fixed and has_resource_requests(each)


@each_policy
@given(clusters())
def test_a_newcomer_is_let_in_where_others_have_more_than_they_must(policy: Policy, cluster: ClusterSnapshot) -> None:
    newcomers = [each for each in cluster.groups if is_newcomer(each)][:1]
    settled = [
        each
        for each in cluster.groups
        if "" not in each.replica_nodes[: each.size] and len(each.replica_nodes) >= each.size >= each.min_size
    ]
    cluster = replace(cluster, groups=(*settled, *newcomers), pending_pods=(), quotas={})
    draft = draft_of(policy, cluster)
    for crew in draft.groups:
        if crew.elastic in newcomers and any(could_come(crew, draft, each) for each in range(len(cluster.nodes))):
            assert len(crew.replica_nodes) >= crew.min_size
