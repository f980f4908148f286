from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.master.brain.rules.worker_scaling import next_worker_count
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import MasterRoleSpec, PodResources, SizingStage
from tests.depth import sample
from tests.master.brain.world import World, job

Speed = Callable[[int], float]


def curve(a: float, b: float, c: float) -> Speed:
    return lambda size: 100.0 * size / (a + b * size + c * size * size)


def best_of(speed: Speed, most: int = 64) -> int:
    """The largest size whose last worker adds a fifth of what the first one does."""
    size = 1
    while size < most and speed(size + 1) - speed(size) >= 0.2 * speed(1):
        size += 1
    return size


@pytest.mark.parametrize("seed", sample(range(3), 1, "noise"))
@pytest.mark.parametrize(
    "speed",
    [
        curve(1, 0.1, 0),
        curve(1, 0.3, 0),
        curve(1, 0.02, 0.01),
        curve(1, 0, 0.02),
        curve(0.1, 1, 0),
        curve(1, 0.05, 0.002),
        lambda size: 100 * (1 - 0.75**size),
        lambda size: 10.0 * min(size, 8),
        lambda size: 10.0 / size,
    ],
    ids=["b=.1", "b=.3", "b=.02 c=.01", "c=.02", "flat", "b=.05 c=.002", "saturating", "up to 8", "slowing"],
)
def test_the_number_of_workers_comes_within_one_of_the_best(speed: Speed, seed: int) -> None:
    world = World(speed=speed, noise=0.03, seed=seed).run(900)
    assert abs(len(world.live()) - best_of(speed)) <= 1
    assert len(world.steps) <= 10


def test_growth_is_tried_by_doubling() -> None:
    world = World().run(500)
    assert [step.sizing_by_type["worker"].replicas for step in world.steps][:5] == [1, 2, 4, 8, 16]
    assert [step.stage for step in world.steps[:3]] == [
        SizingStage.CREATE,
        SizingStage.WORKER_INITIAL,
        SizingStage.RUNNING,
    ]


def test_newcomers_get_what_was_seen_and_a_margin() -> None:
    world = World().run(200)
    shape = world.steps[1].sizing_by_type["worker"].resources
    assert (shape.cpu, shape.memory) == (0.5, 320 * 1024**2)


def test_a_number_that_the_author_gave_is_kept() -> None:
    world = World(facts=job(MasterRoleSpec(type="worker", replicas=3))).run(400)
    assert len(world.live()) == 3
    assert len(world.steps) == 1


def test_with_a_most_his_number_is_where_it_begins() -> None:
    world = World(facts=job(MasterRoleSpec(type="worker", replicas=2, max_size=5))).run(700)
    assert world.steps[0].sizing_by_type["worker"].replicas == 2
    assert len(world.live()) == 5


def test_the_limits_of_the_job_are_kept() -> None:
    limits = PodResources(cpu=3.0, memory=100 * 1024**3)
    world = World(facts=job(limits=limits)).run(700)
    assert sum(node.resources.cpu or 0 for node in world.live()) <= 3.0
    assert len(world.live()) == 5  # one with a whole core, and four with half of one


def test_nobody_is_added_who_would_find_no_work() -> None:
    world = World(work_left=1).run(300)
    sizes = [step.sizing_by_type["worker"].replicas for step in world.steps]
    assert sizes == list(range(1, len(sizes) + 1))
    world.work_left = 0
    assert len(world.run(300).steps) == len(sizes)


def test_workers_that_no_machine_takes_are_given_up_and_not_tried_again_soon() -> None:
    world = World(room=3, tempo=BrainTiming(settle_time=10)).run(600)
    assert len(world.live()) == 3
    assert "not scheduled within" in next(step.reason for step in world.steps if step.remove_members)
    before = len(world.steps)
    world.run(900)
    assert len(world.steps) == before


@given(st.dictionaries(st.integers(1, 64), st.floats(0.001, 1e6), min_size=1), st.integers(1, 64), st.integers(1, 64))
def test_the_next_size_is_within_bounds_and_at_most_twice_what_was_measured(
    speeds: dict[int, float], size: int, most: int
) -> None:
    best = next_worker_count(speeds, size, most, 0.2)
    assert 1 <= best <= max(most, 1)
    assert best <= 2 * max(speeds)
