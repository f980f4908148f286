"""How `fair` shares small clusters, and what it says about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, PendingPods, SizeDecision, SizeReason
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES
from tests.autoscale.clusters import carried_out, cluster, group, key, node, nodes, room, scheduled, shape

TWO = shape(2)
"""Five of these fill a node."""


def plan(picture: ClusterSnapshot) -> dict[str, SizeDecision]:
    return {each.job: verdict for each, verdict in SELECTABLE_POLICIES["fair"].plan(picture).items()}


def sizes(picture: ClusterSnapshot) -> dict[str, int]:
    return {job: verdict.size for job, verdict in plan(picture).items()}


def on(*names: str) -> list[str]:
    """Five members on each of these nodes."""
    return [name for name in names for _ in range(5)]


def nginx(cpu: float, number: int = 1, **other: int) -> PendingPods:
    return PendingPods(key="default/nginx", shape=shape(cpu), count=number, **other)


def test_a_group_alone_grows_until_the_cluster_is_full() -> None:
    assert plan(cluster(nodes(3), group("a", TWO, (2, 60), ["n0", "n1"])))["a"] == SizeDecision(
        15, SizeReason.SCALE_UP, "13 more fit"
    )


def test_nobody_grows_beyond_the_most() -> None:
    found = plan(cluster(nodes(3), group("a", TWO, (2, 4), ["n0"] * 2), group("b", TWO, (1, 2), ["n0"] * 2)))
    assert found["a"] == SizeDecision(4, SizeReason.SCALE_UP, "2 more fit")
    assert found["b"] == SizeDecision(2, SizeReason.AT_MAX_SIZE, "has 2, its maximum")


def test_like_groups_get_like_shares_whatever_they_have() -> None:
    rich = group("rich", TWO, (2, 60), on("n0", "n1"))
    poor = group("poor", TWO, (2, 60), on("n2")[:2])
    found = plan(cluster(nodes(3), rich, poor))
    assert found["rich"] == SizeDecision(8, SizeReason.REBALANCED, "shares capacity with default/poor/trainer")
    assert found["poor"] == SizeDecision(7, SizeReason.SCALE_UP, "5 more fit")


def test_a_difference_of_one_is_no_reason_to_move_a_member() -> None:
    assert sizes(cluster(nodes(1), group("a", TWO, (1, 9), ["n0"] * 3), group("b", TWO, (1, 9), ["n0"] * 2))) == {
        "a": 3,
        "b": 2,
    }


def test_a_newcomer_gets_its_least_at_once_and_then_its_share() -> None:
    found = plan(cluster(nodes(3), group("old", TWO, (2, 60), on("n0", "n1", "n2")), group("new", TWO, (2, 60))))
    assert found["old"] == SizeDecision(
        8, SizeReason.PREEMPTED, "makes room for default/new/trainer: 2 pods of 2 CPU are pending"
    )
    assert found["new"].size == 7


def test_nobody_shares_who_may_not_but_everybody_lets_a_newcomer_in() -> None:
    old = group("old", TWO, (2, 60), on("n0", "n1", "n2"), may_shrink=False)
    assert sizes(cluster(nodes(3), old, group("new", TWO, (2, 60)))) == {"old": 13, "new": 2}


def test_pods_that_wait_get_room_from_those_who_have_most() -> None:
    big, small = group("big", TWO, (2, 60), on("n0", "n1")), group("small", TWO, (2, 6), ["n2"] * 6)
    found = plan(cluster([*nodes(2), node("n2", 12)], big, small, pending_pods=(nginx(3, 2),)))
    assert found["big"] == SizeDecision(
        7, SizeReason.PREEMPTED, "makes room for default/nginx: 2 pods of 3 CPU are pending"
    )
    assert found["small"] == SizeDecision(6, SizeReason.AT_MAX_SIZE, "has 6, its maximum")


def test_nobody_leaves_in_vain_for_a_pod_that_fits_nowhere() -> None:
    assert (
        sizes(cluster(nodes(3), group("a", TWO, (2, 60), on("n0", "n1", "n2")), pending_pods=(nginx(11),)))["a"] == 15
    )


def test_nobody_leaves_in_vain_for_a_group_that_would_still_be_too_small() -> None:
    old = group("old", TWO, (13, 60), on("n0", "n1", "n2"))
    found = plan(cluster(nodes(3), old, group("new", TWO, (3, 9))))
    assert found["old"].size == 15
    assert found["new"] == SizeDecision(
        3, SizeReason.INSUFFICIENT_CAPACITY, "3 of the minimum 3 replicas cannot be scheduled: no node has 2 CPU free"
    )


def test_room_is_made_on_one_node_and_nowhere_else() -> None:
    """Whoever leaves first must, even if it does not help: only the last can go before others do."""
    a = group("a", shape(5), (0, 9), ["n0", "n1"])
    b = group("b", shape(5), (1, 9), ["n1"])
    c = group("c", shape(5), (1, 9), ["n0"])
    found = sizes(cluster(nodes(2), a, b, c, pending_pods=(nginx(5), replace(nginx(5), key="default/other"))))
    assert found == {"a": 0, "b": 1, "c": 1}


def test_members_of_least_sizes_are_left_alone() -> None:
    assert sizes(cluster(nodes(1), group("a", TWO, (5, 9), on("n0")), pending_pods=(nginx(2, priority=9),)))["a"] == 5


def test_the_more_important_have_all_they_may_have_first() -> None:
    low = group("low", TWO, (2, 60), on("n0", "n1"))
    high = group("high", TWO, (1, 7), ["n2"], priority=10)
    assert sizes(cluster(nodes(3), low, high)) == {"low": 8, "high": 7}


def test_nobody_gives_way_to_the_less_important() -> None:
    high = group("high", TWO, (1, 60), on("n0"), priority=10)
    assert sizes(cluster(nodes(1), high, group("low", TWO, (2, 9))))["high"] == 5
    assert sizes(cluster(nodes(1), high, pending_pods=(nginx(2),)))["high"] == 5
    assert sizes(cluster(nodes(1), high, pending_pods=(nginx(2, priority=10),)))["high"] == 4


def test_a_fixed_group_keeps_its_size_and_its_room() -> None:
    fixed = group("fixed", TWO, (1, 60), on("n0"), is_fixed=True, restriction_reason="a user set its size")
    found = plan(cluster(nodes(2), fixed, group("b", TWO, (1, 60), ["n1"])))
    assert found["fixed"] == SizeDecision(5, SizeReason.FIXED, "a user set its size")
    assert found["b"].size == 5


def test_a_group_that_may_not_grow_yet_says_why() -> None:
    young = group("a", TWO, (1, 60), ["n0"], may_grow=False, restriction_reason="its replicas are still starting")
    assert plan(cluster(nodes(1), young))["a"] == SizeDecision(
        1, SizeReason.STABILIZING, "its replicas are still starting"
    )


def test_members_that_fit_nowhere_are_given_up() -> None:
    waits = group("a", TWO, (1, 60), [*on("n0"), "", ""])
    assert plan(cluster(nodes(1), waits))["a"] == SizeDecision(
        5, SizeReason.INSUFFICIENT_CAPACITY, "no node has 2 CPU free"
    )


def test_members_of_a_group_that_may_not_shrink_go_on_waiting() -> None:
    waits = group("a", TWO, (1, 60), [*on("n0"), "", ""], may_shrink=False)
    assert sizes(cluster(nodes(1), waits))["a"] == 7


def test_members_on_a_closed_node_stay_and_nobody_joins_them() -> None:
    closed = replace(node("n0"), is_schedulable=False)
    assert sizes(cluster([closed, node("n1")], group("a", TWO, (1, 60), ["n0", "n1"])))["a"] == 6


def test_a_size_above_the_most_comes_down() -> None:
    assert plan(cluster(nodes(1), group("a", TWO, (1, 3), on("n0"))))["a"] == SizeDecision(
        3, SizeReason.AT_MAX_SIZE, "its maximum is 3"
    )


def test_growing_stops_at_the_limit_of_load_and_of_the_quota() -> None:
    found = plan(cluster(nodes(2), group("a", TWO, (1, 60), ["n0"] * 3), max_load=0.75))
    assert found["a"].size == 7
    full = plan(cluster(nodes(2), group("a", TWO, (1, 60), [*on("n0"), "n1", "n1"]), max_load=0.75))
    assert full["a"] == SizeDecision(
        7, SizeReason.INSUFFICIENT_CAPACITY, "no more than 75% of all CPU may be allocated"
    )
    quota = plan(cluster(nodes(2), group("a", TWO, (1, 60), ["n0"] * 3), quotas={"default": {"cpu": 7000}}))
    assert quota["a"] == SizeDecision(3, SizeReason.QUOTA_EXCEEDED, "the quota of namespace default is exhausted")


def test_whoever_must_have_room_may_have_what_is_kept_free() -> None:
    assert (
        sizes(cluster(nodes(1), group("a", TWO, (1, 60), ["n0"] * 4), pending_pods=(nginx(2),), max_load=0.9))["a"] == 4
    )


def test_a_newcomer_gets_its_part_of_the_quota_of_its_namespace() -> None:
    old = group("team/old", TWO, (1, 60), ["n0"] * 4)
    new = group("team/new", TWO, (2, 60))
    assert sizes(cluster(nodes(2), old, new, quotas={"team": {"cpu": 8000}})) == {"old": 2, "new": 2}


def test_devices_are_given_away_to_the_last() -> None:
    gpus = [node("n0", 10, gpus=8)]
    assert sizes(cluster(gpus, group("a", shape(1, gpus=1), (1, 60), ["n0"]), max_load=0.85))["a"] == 8


def test_a_group_whose_members_ask_for_nothing_stays_as_it_is() -> None:
    found = plan(cluster(nodes(1), group("a", shape(), (1, 60), ["n0"] * 2)))["a"]
    why = "its replicas request no CPU, memory or devices, so the number that fits is unknown"
    assert found == SizeDecision(2, SizeReason.FIXED, why)


def test_small_members_leave_together_for_a_big_one() -> None:
    many = group("many", shape(1), (1, 60), ["n0"] * 10)
    big = group("big", shape(4), (1, 9), ["n1"])
    picture = cluster([node("n0"), node("n1", 4)], many, big)
    assert sizes(picture) == {"many": 6, "big": 2}


def test_no_nodes_and_huge_needs_end_well() -> None:
    assert sizes(cluster([], group("a", TWO, (2, 60))))["a"] == 2
    assert sizes(cluster(nodes(2), group("a", shape(10**18), (2, 60)), max_load=0.5))["a"] == 2


@pytest.fixture
def published() -> ClusterSnapshot:
    """A cluster like that of the published experiment: 133 nodes, and ten servers of every job."""
    big, small = (
        [node(f"big-{each}", 20, 110) for each in range(94)],
        [node(f"s-{each}", 12, 64) for each in range(39)],
    )
    servers = [replace(each, used_by_others=room(8, 10)) for each in big]
    return ClusterSnapshot(nodes=(*servers, *small), groups=())


def trainers(number: int) -> list[ElasticGroup]:
    return [group(f"job-{each}", shape(5, 8), (2, 60), created_at=float(each)) for each in range(number)]


def test_twenty_jobs_that_come_one_by_one_share_evenly_and_none_waits(published: ClusterSnapshot) -> None:
    picture = published
    for newcomer in trainers(20):
        picture = replace(picture, groups=(*picture.groups, newcomer))
        picture = scheduled(picture, SELECTABLE_POLICIES["fair"].plan(picture))
        assert all(len([place for place in each.replica_nodes if place]) >= 2 for each in picture.groups)
        picture = scheduled(picture, SELECTABLE_POLICIES["fair"].plan(picture))
    there = [len([place for place in each.replica_nodes if place]) for each in picture.groups]
    assert sum(there) ** 2 / len(there) / sum(each**2 for each in there) > 0.95
    assert max(there) - min(there) <= 1


def test_a_plan_says_where_nobody_is_moved(published: ClusterSnapshot) -> None:
    from pliant.autoscale.planning.planner import draft_plan
    from pliant.autoscale.policies.fair import rank_by_size

    picture = replace(published, groups=tuple(trainers(6)))
    picture = carried_out(picture, draft_plan(picture, rank_by_size))
    newcomer = group("job-9", shape(5, 8), (2, 60), created_at=9.0)
    draft = draft_plan(replace(picture, groups=(*picture.groups, newcomer)), rank_by_size)
    after = carried_out(replace(picture, groups=(*picture.groups, newcomer)), draft)
    before = {each.key: each.replica_nodes for each in picture.groups}
    for each in after.groups:
        kept = before.get(each.key, ())[: each.size]
        assert each.replica_nodes[: len(kept)] == kept
    assert {each.key for each in after.groups} == {key("job-9"), *before}
