from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, NodeResources, PodShape
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES, SIMULATION_POLICIES, plan_with_policies
from pliant.frontends import scaling
from tests.autoscale.clusters import scheduled
from tests.autoscale.pictures import clusters


def a_group(name: str, size: int = 2, *, most: int = 60, speeds: tuple[tuple[int, float], ...] = ()) -> ElasticGroup:
    return ElasticGroup(
        key=GroupKey("default", "PyTorchJob.kubeflow.org", name, "worker"),
        min_size=2,
        max_size=most,
        size=size,
        shape=PodShape.of({"cpu": 1000}),
        replica_nodes=("n",) * size,
        throughputs=speeds,
    )


def cluster_of(*groups: ElasticGroup, cores: int = 60) -> ClusterSnapshot:
    return ClusterSnapshot(
        nodes=(NodeResources(name="n", allocatable={"cpu": cores * 1000}),), groups=groups, max_load=1.0
    )


def sizes(cluster: ClusterSnapshot, **chosen: str) -> dict[str, int]:
    keys = {each.key.job: each.key for each in cluster.groups}
    plan = plan_with_policies(cluster, {keys[job]: name for job, name in chosen.items()}, "fair")
    return {key.job: plan[key].size for key in plan}


def test_users_may_choose_the_policies_there_are() -> None:
    assert tuple(sorted(SELECTABLE_POLICIES)) == scaling.AUTOSCALE_POLICIES
    assert all(policy.name == name for name, policy in SIMULATION_POLICIES.items())
    assert set(SIMULATION_POLICIES) - set(SELECTABLE_POLICIES) == {"edl-published"}


def test_where_all_chose_one_policy_it_plans_alone() -> None:
    cluster = cluster_of(a_group("a", 10), a_group("b", 2, most=20))
    for name, policy in SELECTABLE_POLICIES.items():
        keys = [each.key for each in cluster.groups]
        assert plan_with_policies(cluster, dict.fromkeys(keys, name), "fair") == policy.plan(cluster)
        assert plan_with_policies(cluster, {}, name) == policy.plan(cluster)


def test_like_groups_have_the_same_whatever_they_chose() -> None:
    cluster = cluster_of(a_group("a"), a_group("b"), a_group("c"))
    assert sizes(cluster, a="edl", b="goodput") == {"a": 20, "b": 20, "c": 20}


def test_a_group_that_more_members_do_not_help_leaves_them_to_others_whatever_those_chose() -> None:
    flat = ((1, 10.0), (2, 15.0), (4, 20.0), (8, 24.0))
    cluster = cluster_of(a_group("a", speeds=flat), a_group("b", speeds=flat), a_group("c"))
    assert sizes(cluster, a="goodput") == {"a": 4, "b": 28, "c": 28}


def test_a_newcomer_is_let_in_by_groups_of_other_policies() -> None:
    full = a_group("a", 30), a_group("b", 30)
    newcomer = ElasticGroup(
        key=GroupKey("default", "PyTorchJob.kubeflow.org", "c", "worker"),
        min_size=2,
        max_size=60,
        size=2,
        shape=PodShape.of({"cpu": 1000}),
        replica_nodes=("", ""),
    )
    cluster = cluster_of(*full)
    cluster = ClusterSnapshot(nodes=cluster.nodes, groups=(*full, newcomer), max_load=1.0)
    assert sizes(cluster, a="edl", c="goodput") == {"a": 20, "b": 20, "c": 20}


@given(clusters(), st.lists(st.sampled_from(sorted(SELECTABLE_POLICIES)), min_size=6, max_size=6))
def test_plans_of_any_mixture_come_to_rest(cluster: ClusterSnapshot, names: list[str]) -> None:
    chosen = {each.key: name for each, name in zip(cluster.groups, names, strict=False)}
    for _ in range(12):
        after = scheduled(cluster, plan_with_policies(cluster, chosen, "fair"))
        if after == cluster:
            return
        cluster = after
    pytest.fail("sizes change and change")


def test_every_group_is_ranked_by_the_policy_it_chose() -> None:
    groups = a_group("a", most=12), a_group("b", most=62), a_group("c", most=62)
    alike = sizes(cluster_of(*groups), a="edl", b="edl", c="edl")
    mixed = sizes(cluster_of(*groups), a="edl", b="edl")
    assert alike == {"a": 7, "b": 27, "c": 26}
    assert mixed == {"a": 7, "b": 30, "c": 23}  # half of what they may have each, and the third by number
    assert sizes(cluster_of(*groups)) == {"a": 12, "b": 24, "c": 24}
