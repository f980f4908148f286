from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, NodeResources, PodShape
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES

EDL = SELECTABLE_POLICIES["edl"]
MEGA = 1_000_000


def a_group(
    bounds: str, size: int, needs: tuple[int, int, int] = (1000, 105, 0), name: str = "a", place: str = "n"
) -> ElasticGroup:
    least, most = (int(each) for each in bounds.split(".."))
    cpu, memory, gpu = needs
    return ElasticGroup(
        key=GroupKey("default", "PaddleJob.paddlepaddle.org", name, "trainer"),
        min_size=least,
        max_size=most,
        size=size,
        shape=PodShape.of({"cpu": cpu, "memory": memory * MEGA, "nvidia.com/gpu": gpu}),
        replica_nodes=(place,) * size,
    )


def cluster_of(*groups: ElasticGroup, free: tuple[int, int, int], load: float = 1.0) -> ClusterSnapshot:
    """One node, with so many thousandths of a core, millions of bytes and GPUs free beside these groups."""
    cpu, memory, gpu = free
    room = {"cpu": cpu, "memory": memory * MEGA, "nvidia.com/gpu": gpu}
    for group in groups:
        for name, amount in group.shape.requests:
            room[name] += group.size * amount
    return ClusterSnapshot(nodes=(NodeResources(name="n", allocatable=room),), groups=groups, max_load=load)


def sizes(cluster: ClusterSnapshot) -> list[int]:
    plan = EDL.plan(cluster)
    return [plan[each.key].size for each in cluster.groups]


GOLDEN = [
    ("satisfied", a_group("1..2", 2), (2000, 1000, 0), 1.0, 2),
    ("more CPU", a_group("1..3", 1), (2900, 900, 0), 1.0, 3),
    ("no CPU", a_group("1..3", 1), (0, 900, 0), 1.0, 1),
    ("more GPU", a_group("1..3", 1, (1000, 11, 1)), (2000, 900, 10), 1.0, 3),
    ("no GPU", a_group("1..3", 1, (1000, 11, 1)), (2000, 900, 0), 1.0, 1),
    ("above max", a_group("1..3", 6), (0, 0, 0), 1.0, 3),
    ("to min", a_group("1..3", 3), (-2000, 0, 0), 1.0, 1),
    ("full", a_group("1..3", 3), (-1000, 900, 0), 1.0, 2),
    ("no memory", a_group("1..3", 1), (0, 0, 0), 1.0, 1),
    ("plan", a_group("1..3", 1), (3000, 900, 2), 1.0, 3),
    ("plan not full", a_group("1..3", 1), (2000, 900, 0), 0.8, 2),
    ("plan down", a_group("1..3", 3), (0, 900, 0), 0.8, 2),
    ("plan less CPU", a_group("1..3", 1, (1000, 1, 1)), (1000, 900, 2), 1.0, 2),
    ("plan less GPU", a_group("1..3", 1, (1000, 1, 1)), (1010, 900, 1), 1.0, 2),
]


@pytest.mark.parametrize(("case", "group", "free", "load", "size"), GOLDEN)
def test_a_job_is_planned_as_the_publication_means_it(
    case: str, group: ElasticGroup, free: tuple[int, int, int], load: float, size: int
) -> None:
    assert sizes(cluster_of(group, free=free, load=load)) == [size], case


def test_the_last_device_is_used_whatever_the_limit_on_load() -> None:
    group = a_group("1..20", 9, (1000, 1, 1))
    assert sizes(cluster_of(group, free=(91_000, 1000, 1), load=0.97)) == [10]


def test_the_limit_on_load_holds_for_memory_when_growing_too() -> None:
    group = a_group("1..60", 48, (1, 20, 0))
    assert sizes(cluster_of(group, free=(1000, 40, 0), load=0.97)) == [48]


def test_jobs_come_to_have_the_same_part_of_what_they_may_have() -> None:
    small, large = a_group("2..12", 12, name="a"), a_group("0..40", 0, name="b")
    assert sizes(cluster_of(small, large, free=(15_000, 9000, 0))) == [7, 20]  # half of 10, half of 40


@pytest.mark.parametrize(("first", "second", "free", "size"), [(60, 10, -6, 32), (2, 30, 10, 21)])
def test_jobs_that_are_alike_come_to_have_the_same(first: int, second: int, free: int, size: int) -> None:
    groups = a_group("2..60", first, name="a"), a_group("2..60", second, name="b")
    assert sizes(cluster_of(*groups, free=(free * 1000, 99_999, 0))) == [size, size]


def test_among_jobs_that_are_equally_fulfilled_whoever_asks_for_less_grows() -> None:
    needs = {"a": (1000, 1, 1), "b": (1000, 1, 0), "c": (10_000, 1, 0), "d": (1000, 2, 0)}
    groups = [a_group("1..2", 1, each, name) for name, each in needs.items()]
    assert sizes(cluster_of(*groups, free=(1000, 999, 9))) == [1, 2, 1, 1]
    assert sizes(cluster_of(*groups, free=(2000, 999, 9))) == [1, 2, 1, 2]
    assert sizes(cluster_of(*groups, free=(12_000, 999, 9))) == [1, 2, 2, 2]


def test_a_newcomer_is_let_in_at_once_by_those_who_have_most() -> None:
    full = a_group("2..60", 40, name="a"), a_group("2..60", 20, name="b")
    newcomer = a_group("2..60", 2, name="c", place="")
    cluster = cluster_of(*full, free=(0, 99_999, 0))
    cluster = ClusterSnapshot(nodes=cluster.nodes, groups=(*full, newcomer), max_load=1.0)
    assert sizes(cluster) == [20, 20, 20]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=2, max_size=3), st.integers(0, 12))
def test_nobody_could_be_more_fulfilled_but_at_the_cost_of_one_who_is_less(
    bounds: list[tuple[int, int]], free: int
) -> None:
    groups = [a_group(f"{least}..{least + span}", least, name=f"j{n}") for n, (least, span) in enumerate(bounds)]
    cluster = cluster_of(*groups, free=(free * 1000, 99_999, 0))

    def fulfilments(grown: Iterable[int]) -> list[float]:
        return sorted(more / span for more, (_, span) in zip(grown, bounds, strict=True))

    every = (more for more in product(*(range(span + 1) for _, span in bounds)) if sum(more) <= free)
    ours = [size - group.min_size for size, group in zip(sizes(cluster), groups, strict=True)]
    assert fulfilments(ours)[0] == max(map(fulfilments, every))[0]
    assert sum(ours) == min(free, sum(span for _, span in bounds))
