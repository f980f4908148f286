from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import (
    ClusterSnapshot,
    ElasticGroup,
    GroupKey,
    NodeResources,
    PodShape,
    SizeDecision,
    SizeReason,
)
from pliant.autoscale.policies.goodput import GoodputPolicy
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES
from pliant.autoscale.speedup import SpeedupCurve, fit_speedup_curve

FLATTENS = SpeedupCurve(parallel_cost=1.0, serial_cost=0.2)
"""The seventh member adds a fifth of what the first does, the twelfth a tenth."""


def a_group(
    name: str = "a", size: int = 4, *, most: int = 32, speeds: tuple[tuple[int, float], ...] = ()
) -> ElasticGroup:
    return ElasticGroup(
        key=GroupKey("default", "PyTorchJob.kubeflow.org", name, "worker"),
        min_size=1,
        max_size=most,
        size=size,
        shape=PodShape.of({"cpu": 1000}),
        replica_nodes=("n",) * size,
        throughputs=speeds,
    )


def measured(curve: SpeedupCurve, *sizes: int) -> tuple[tuple[int, float], ...]:
    return tuple((size, 100 * curve.throughput_at(size)) for size in sizes)


def test_a_group_that_was_never_measured_may_have_all_it_asks_for() -> None:
    assert GoodputPolicy().with_useful_max_size(a_group()) == a_group()


def test_a_group_is_tried_out_at_twice_the_size_that_was_measured_and_then_at_four_times() -> None:
    assert GoodputPolicy().with_useful_max_size(a_group(speeds=((1, 10.0), (4, 40.0)))).max_size == 16
    group = a_group(speeds=((4, 40.0),))
    assert GoodputPolicy().with_useful_max_size(group).max_size == 8
    told = GoodputPolicy().with_explanation(group, SizeDecision(8, SizeReason.AT_MAX_SIZE, "8 is the most"))
    assert told == (8, SizeReason.STABILIZING, "the throughput of 8 replicas must be measured first")


def test_a_group_that_is_larger_than_was_measured_need_not_shrink_for_that() -> None:
    assert GoodputPolicy().with_useful_max_size(a_group(size=12, speeds=((1, 10.0), (2, 20.0)))).max_size == 12


def test_members_that_add_too_little_are_not_taken_on() -> None:
    group = a_group(speeds=measured(FLATTENS, 1, 2, 4))
    bounded = GoodputPolicy().with_useful_max_size(group)
    assert bounded.max_size == 7
    told = GoodputPolicy().with_explanation(group, SizeDecision(7, SizeReason.AT_MAX_SIZE, "7 is the most"))
    assert told == (7, SizeReason.NOT_WORTHWHILE, "one more replica than 7 would add 5 % throughput")


@pytest.mark.parametrize(("size", "most"), [(6, 7), (7, 7), (10, 10), (12, 12), (14, 7)])
def test_members_that_are_there_stay_until_they_add_still_less(size: int, most: int) -> None:
    group = a_group(size=size, speeds=measured(FLATTENS, 1, 4, 8, 14))
    assert GoodputPolicy().with_useful_max_size(group).max_size == most


def test_a_group_that_may_not_shrink_does_not() -> None:
    group = replace(a_group(size=20, speeds=measured(FLATTENS, 1, 4, 20)), may_shrink=False)
    assert GoodputPolicy().with_useful_max_size(group).max_size == 20


def test_a_group_that_slows_down_is_told_so() -> None:
    group = a_group(speeds=((1, 10.0), (2, 9.0), (4, 6.0)))
    assert GoodputPolicy().with_useful_max_size(group).max_size == 1
    told = GoodputPolicy().with_explanation(group, SizeDecision(1, SizeReason.AT_MAX_SIZE, "1 is the most"))
    assert told.message == "one more replica than 1 would not increase throughput"


def cluster_of(*elastics: ElasticGroup) -> ClusterSnapshot:
    return ClusterSnapshot(nodes=(NodeResources(name="n", allocatable={"cpu": 64_000}),), groups=elastics)


def levels(cluster: ClusterSnapshot, index: int, *sizes: int) -> list[float]:
    rank = GoodputPolicy().build_ranking(cluster)(cluster.groups[index])
    return [rank.share_at(size) for size in sizes]


def test_groups_that_were_not_measured_are_on_levels_like_their_sizes() -> None:
    cluster = cluster_of(a_group(), replace(a_group("b"), shape=PodShape.of({"cpu": 3000})))
    assert levels(cluster, 0, 0, 1, 10) == pytest.approx([0, 0.5, 5], rel=0.1)
    assert levels(cluster, 1, 0, 1, 10) == pytest.approx([0, 1.5, 15], rel=0.1)  # takes three times the room


def test_a_group_that_flattens_is_as_well_off_as_a_larger_one_that_does_not() -> None:
    cluster = cluster_of(a_group(speeds=measured(FLATTENS, 1, 2, 4)), a_group("b"))
    assert levels(cluster, 0, 4)[0] > levels(cluster, 1, 6)[0]


def test_a_group_that_slows_down_gives_to_anybody() -> None:
    cluster = cluster_of(a_group(speeds=((1, 10.0), (2, 9.0), (4, 6.0))))
    assert levels(cluster, 0, 1, 3) == [float("inf")] * 2


curves = st.builds(SpeedupCurve, st.just(1.0), st.floats(0, 0.2), st.floats(0, 0.02))


@given(st.lists(curves, min_size=2, max_size=3), st.integers(3, 16))
def test_room_goes_where_it_makes_the_product_of_all_speeds_largest(truths: list[SpeedupCurve], cores: int) -> None:
    groups = [
        replace(a_group(f"j{number}", 1, most=8, speeds=measured(truth, 1, 2, 4, 8)), shape=PodShape.of({"cpu": 1000}))
        for number, truth in enumerate(truths)
    ]
    cluster = ClusterSnapshot(
        nodes=(NodeResources(name="n", allocatable={"cpu": cores * 1000}),), groups=tuple(groups), max_load=1.0
    )
    plan = SELECTABLE_POLICIES["goodput"].plan(cluster)
    found = [fit_speedup_curve(each.throughputs) for each in groups]
    tops = [GoodputPolicy().with_useful_max_size(each).max_size for each in groups]
    every = (sizes for sizes in product(*(range(1, top + 1) for top in tops)) if sum(sizes) <= cores)
    best = max(prod(curve.throughput_at(size) for curve, size in zip(found, sizes, strict=True)) for sizes in every)
    ours = prod(curve.throughput_at(plan[each.key].size) for curve, each in zip(found, groups, strict=True))
    assert ours == pytest.approx(best)


def test_a_place_changes_hands_only_if_that_is_worth_it() -> None:
    straight = ((1, 10.0), (2, 20.0), (20, 200.0), (22, 220.0))

    def planned(*sizes: int) -> list[int]:
        groups = [a_group(f"j{size}", size, speeds=straight) for size in sizes]
        cluster = ClusterSnapshot(
            nodes=(NodeResources(name="n", allocatable={"cpu": 42_000}),), groups=tuple(groups), max_load=1.0
        )
        return [verdict.size for _, verdict in sorted(SELECTABLE_POLICIES["goodput"].plan(cluster).items())]

    assert planned(20, 22) == [20, 22]
    assert planned(16, 26) == [20, 22]
