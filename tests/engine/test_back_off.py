"""How long those who fail again and again must wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.engine.restart.restarts import BACKOFF_RESET_AFTER, STABLE_RUN, backoff_left
from pliant.model.job import RestartScope
from pliant.model.observed import ObservedPod, PodExit, PodPhase
from pliant.model.state import GroupState
from tests.builders import NOON, make_group, make_job, restarting
from tests.engine.world import World


def worker_memory(world: World) -> GroupState:
    assert world.job.state is not None
    return world.job.state.group("worker")


def running(size: int) -> World:
    """A world in which everybody runs."""
    world = World(make_job(make_group("worker", size, restart=restarting(RestartScope.POD))), lambda pod: -1)
    world.settle()
    return world


def test_members_lost_together_come_back_at_once() -> None:
    world = running(8)
    for name in list(world.pods):
        world.remove_by_hand(name)
        world.perform(world.decide())
    memory = worker_memory(world)
    assert memory.restart_streak == 1
    assert backoff_left(memory, world.now) == timedelta(0)


def test_a_member_that_fails_again_waits_longer_each_time() -> None:
    streaks = []

    def fails(pod: ObservedPod) -> int:
        return 1 if pod.index == 0 and pod.attempt < 5 else -1

    world = World(make_job(make_group("worker", 3, restart=restarting(RestartScope.POD))), fails)
    for _ in range(60):
        world.perform(world.decide())
        for name in sorted(world.pods):
            world.step(name)
        world.pass_time(timedelta(seconds=10))
        if world.job.state is not None:
            streaks.append(worker_memory(world).restart_streak)
    assert sorted(set(streaks)) == [0, 1, 2, 3, 4, 5]


def test_a_member_that_is_lost_again_after_it_ran_for_a_while_comes_back_at_once() -> None:
    world = running(3)
    for _ in range(5):
        world.pass_time(2 * STABLE_RUN)
        lost = world.pods["demo-worker-0"]
        ended = {"phase": PodPhase.FAILED, "exit": PodExit(code=137, container="trainer"), "finished_at": world.now}
        world.pods[lost.name] = replace(lost, started_at=world.now - STABLE_RUN, **ended)  # type: ignore[arg-type]
        world.settle()
        assert worker_memory(world).restart_streak == 1
    assert worker_memory(world).restarts_without_disruptions == 5


def test_a_group_that_ran_for_a_while_starts_again_without_a_wait() -> None:
    fails_now = True
    group = make_group("worker", 1, restart=restarting(RestartScope.POD))
    world = World(make_job(group), lambda pod: 1 if fails_now else -1)

    def go_on(rounds: int) -> None:
        for _ in range(rounds):
            world.perform(world.decide())
            for name in sorted(world.pods):
                world.step(name)
            world.pass_time(timedelta(seconds=10))

    go_on(30)
    assert worker_memory(world).restart_streak > 2
    fails_now = False
    go_on(BACKOFF_RESET_AFTER // timedelta(seconds=10) + 60)
    restarts = worker_memory(world).attempt
    fails_now = True
    go_on(2)
    assert worker_memory(world).attempt == restarts + 1
    assert worker_memory(world).restart_streak == 1
    assert backoff_left(worker_memory(world), world.now) == timedelta(0)


def test_two_members_that_fail_in_turns_do_not_escape_the_wait() -> None:
    world = World(
        make_job(make_group("worker", 2, restart=restarting(RestartScope.POD))),
        lambda pod: 1 if pod.attempt < 8 else -1,
    )
    for round_ in range(80):
        world.perform(world.decide())
        for name in sorted(world.pods)[round_ % 2 :: 2]:
            world.step(name)
        world.pass_time(timedelta(seconds=3))
    assert worker_memory(world).restart_streak >= 3


def test_nobody_waits_for_a_clock_that_was_put_back() -> None:
    memory = GroupState(last_restart_at=NOON, restart_streak=4)
    assert backoff_left(memory, NOON + timedelta(seconds=1)) == timedelta(seconds=3)
    assert backoff_left(memory, NOON - timedelta(hours=3)) == timedelta(0)
