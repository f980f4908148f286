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

from pliant.autoscale.crews import ANYWHERE, Crew, is_measured
from pliant.autoscale.draft import Draft
from pliant.autoscale.mixing import drafted
from pliant.autoscale.model import Cluster, Elastic, Policy
from pliant.autoscale.packing import LIMITED, Floor
from pliant.autoscale.policies import POLICIES
from tests.autoscale.clusters import carried_out, scheduled
from tests.autoscale.pictures import clusters

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "pods")
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda each: each.name)


def draft_of(policy: Policy, cluster: Cluster) -> Draft:
    return drafted(cluster, {}, policy.name)


def sizes(cluster: Cluster) -> dict[object, int]:
    return {each.key: each.size for each in cluster.elastics}


def planned_sizes(policy: Policy, cluster: Cluster) -> dict[object, int]:
    plan = policy.plan(cluster)
    assert list(plan) == list(dict.fromkeys(plan))
    assert set(plan) == {each.key for each in cluster.elastics}
    return {key: verdict.size for key, verdict in plan.items()}


@each_policy
@given(clusters())
def test_sizes_keep_to_their_bounds(policy: Policy, cluster: Cluster) -> None:
    after = planned_sizes(policy, cluster)
    for each in cluster.elastics:
        size = after[each.key]
        if each.is_fixed or not is_measured(each):
            assert size == each.size
            continue
        assert size <= each.most
        assert size >= min(each.least, each.size)
        assert each.may_grow or size <= max(each.size, each.least)


def placed(each: Elastic) -> int:
    """How many members have a node."""
    return sum(map(bool, each.places[: each.size]))


def without_waiting(cluster: Cluster) -> Cluster:
    """Without groups that must keep their size although members wait: nobody says that those fit."""
    able = [each for each in cluster.elastics if each.may_shrink and not each.is_fixed and is_measured(each)]
    return replace(cluster, elastics=tuple(able))


@each_policy
@given(clusters())
def test_nothing_is_planned_that_does_not_fit(policy: Policy, cluster: Cluster) -> None:
    before, after = Floor(cluster), (draft := draft_of(policy, cluster)).floor
    for crew in draft.crews:
        newcomers = {seat for seat in crew.seats if seat != after.nowhere} - set(crew.homes)
        assert all(after.is_open[seat] and crew.foot.open_to[seat] for seat in newcomers)
    for name, seat in after.position.items():
        for resource in RESOURCES:
            had = before.lanes.amount(before.free[before.position[name]], resource)
            assert after.lanes.amount(after.free[seat], resource) >= min(0, had)


@each_policy
@given(clusters())
def test_no_more_is_given_away_than_may_be(policy: Policy, cluster: Cluster) -> None:
    cluster = without_waiting(cluster)
    before, after = Floor(cluster), (draft := draft_of(policy, cluster)).floor
    must = Counter[str]()
    for claim, _ in draft.arrivals:
        must.update(dict(claim.shape.needs))
    for crew in draft.crews:
        homes = [*crew.homes, *[ANYWHERE] * crew.least][: min(crew.least, len(crew.seats))]
        must.update({name: amount * homes.count(ANYWHERE) for name, amount in crew.foot.shape.needs})
    for resource in LIMITED:
        had = before.lanes.amount(before.slack, resource) - must[resource]
        assert after.lanes.amount(after.slack, resource) >= min(0, had)


@each_policy
@given(clusters())
def test_quotas_are_kept(policy: Policy, cluster: Cluster) -> None:
    cluster = without_waiting(cluster)
    used, had = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for crew in draft_of(policy, cluster).crews:
        for resource, amount in crew.foot.shape.needs:
            used[crew.elastic.key.namespace, resource] += amount * len(crew.seats)
            had[crew.elastic.key.namespace, resource] += amount * placed(crew.elastic)
    for namespace, limits in cluster.quotas.items():
        for resource, limit in limits.items():
            assert used[namespace, resource] <= max(limit, had[namespace, resource])


@each_policy
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_a_picture_does_not_matter(policy: Policy, cluster: Cluster, chance: random.Random) -> None:
    def shuffled(part: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(chance.sample(part, len(part)))

    nodes, elastics, claims = map(shuffled, (cluster.nodes, cluster.elastics, cluster.claims))
    other = replace(cluster, nodes=nodes, elastics=elastics, claims=claims)
    assert policy.plan(cluster) == policy.plan(other)


@each_policy
@given(clusters())
def test_a_plan_that_was_carried_out_comes_to_rest(policy: Policy, cluster: Cluster) -> None:
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
def test_plans_come_to_rest_wherever_pods_are_put(policy: Policy, cluster: Cluster) -> None:
    for _ in range(12):
        after = scheduled(cluster, policy.plan(cluster))
        if after == cluster:
            return
        cluster = after
    pytest.fail("sizes change and change")


def could_come(crew: Crew, draft: Draft, number: int) -> bool:
    """Whether a node has room for one of these, if all left who are no more important and may."""
    foot, floor = crew.foot, Floor(draft.cluster)
    if not foot.open_to[number]:
        return False
    name = draft.floor.names[number]
    free = floor.free[floor.position[name]]
    for other in draft.crews:
        if other is not crew and other.priority <= crew.priority and not other.is_fixed:
            places = other.elastic.places[other.least : other.elastic.size]
            free += other.foot.need * places.count(name)
    return free - foot.need & foot.signs == foot.signs


def is_newcomer(each: Elastic) -> bool:
    there = sum(map(bool, each.places[: min(each.size, each.least)]))
    return each.least - there == 1 and not each.is_fixed and is_measured(each)


@each_policy
@given(clusters())
def test_a_newcomer_is_let_in_where_others_have_more_than_they_must(policy: Policy, cluster: Cluster) -> None:
    newcomers = [each for each in cluster.elastics if is_newcomer(each)][:1]
    settled = [
        each
        for each in cluster.elastics
        if "" not in each.places[: each.size] and len(each.places) >= each.size >= each.least
    ]
    cluster = replace(cluster, elastics=(*settled, *newcomers), claims=(), quotas={})
    draft = draft_of(policy, cluster)
    for crew in draft.crews:
        if crew.elastic in newcomers and any(could_come(crew, draft, each) for each in range(len(cluster.nodes))):
            assert len(crew.seats) >= crew.least
