"""What holds for any plans, by whomever and however cut off: nobody is made twice, all comes to rest."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pliant.model.actions import Decision
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import JobPhase
from tests.engine.laws import departures_are_awaited, membership_is_published
from tests.engine.mastered import MASTER, MASTER_POD, elastic_job, foreign, members, pod, watched, write
from tests.engine.world import World

deeds = st.sampled_from(
    (
        "decide",
        "decide",
        "step",
        "step",
        "plan",
        "plan",
        "manual",
        "relaunch",
        "remove",
        "migrate",
        "kill",
        "node",
        "suspend",
        "resume",
        "edit",
        "foreign",
        "evict master",
        "drain",
        "grace",
        "wait",
    )
)
histories = st.lists(st.tuples(deeds, st.integers(0, 6)), max_size=60)
MANY = settings(max_examples=3 * settings().max_examples)


def act(world: World, deed: str, number: int) -> None:  # noqa: C901 - a table of what may happen
    """Let one thing happen."""
    group = "worker" if number % 3 else "ps"
    there = sorted(each.name for each in world.pods.values() if each.group == group and not each.is_terminating)
    chosen = there[number % len(there)] if there else ""
    serial = f"p{world.serial + 1:04}"
    match deed:
        case "decide":
            world.perform(world.decide(), cut_after=number if number < 5 else None)
        case "step":
            for name in sorted(world.pods):
                world.step(name)
        case "plan" | "manual":
            write(world, serial, is_manual=deed == "manual", **{group: number})
        case "relaunch":
            write(world, serial, create_pods=(pod(group, rank=number),))
        case "remove" if chosen:
            write(world, serial, remove_pods=(pod(group, name=chosen),))
        case "migrate" if chosen:
            write(world, serial, migrate_pods=(pod(group, name=chosen, resources={"cpu": "2"}),))
        case "kill" if chosen:
            world.remove_by_hand(chosen)
        case "node":
            if not world.faults:
                world.break_node("n1", is_dead=True)
            else:
                world.faults.clear()
        case "suspend":
            world.suspend()
        case "resume":
            world.resume()
        case "edit":
            world.resize("worker", spec=number)
        case "foreign":
            foreign(world, "worker", 100 + world.serial, rank=number)
        case "evict master" if MASTER_POD in world.pods:
            world.evict(MASTER_POD)
        case "drain":
            world.draining.symmetric_difference_update({"n1"})
        case "grace":
            world.edit(checkpoint_grace=timedelta(seconds=10 * number))
        case "wait":
            world.pass_time(timedelta(seconds=number * 7))


def lived(uses_pliant_master: bool, days: list[tuple[str, int]], *, is_running: bool = False) -> World:
    job = elastic_job(watched("worker", 1), watched("ps"), uses_pliant_master=uses_pliant_master)
    rules = OperatorConfig(plan_timeout=timedelta(seconds=60))
    world = World(job=job, ending=lambda each: -1, rules=rules, saves_state=True)
    if is_running:
        world.settle()
        write(world, "first", worker=4, ps=2)
        world.settle()
    for deed, number in days:
        act(world, deed, number)
        _check_departures(world, world.decide())
    world.faults.clear()
    world.draining.clear()
    world.settle(rounds=1000, check=_check_departures)
    assert not world.memory.departures
    return world


def _check_departures(world: World, decision: Decision) -> None:
    departures_are_awaited(world, decision)
    membership_is_published(world, decision)


@MANY
@given(st.booleans(), histories)
def test_whatever_is_planned_everything_comes_to_rest(uses_pliant_master: bool, days: list[tuple[str, int]]) -> None:
    world = lived(uses_pliant_master, days)
    names = [name for name, _ in world.created if "edljob" in name]
    assert len(names) == len(set(names)), "a member was made twice"
    ours = {each.name for each in world.pods.values() if not each.is_external and each.group != MASTER}
    if world.memory.phase is JobPhase.SUSPENDED:
        assert not [each for each in world.pods.values() if each.group != MASTER]
        return
    if world.memory.phase.is_final:
        assert not world.pods
        return
    listed = {f"demo-edljob-{group}-{index}" for group in ("worker", "ps") for index in members(world, group)}
    assert ours == listed
    assert not world.memory.plan_executions
    assert all(plan.phase is not None and plan.phase.is_final for plan in world.plans.values())
    assert MASTER_POD in world.pods


@MANY
@given(st.booleans(), histories)
@example(True, [("relaunch", 1), ("plan", 0)])  # a member leaves that another one has superseded
def test_members_that_run_save_their_state_before_they_leave(
    uses_pliant_master: bool, days: list[tuple[str, int]]
) -> None:
    lived(uses_pliant_master, days, is_running=True)


@MANY
@given(histories, st.integers(0, 5))
def test_the_last_size_asked_for_is_the_size(days: list[tuple[str, int]], size: int) -> None:
    world = lived(True, days)
    world.resume()
    world.settle(rounds=1000)
    world.pass_time(timedelta(seconds=1))
    write(world, "last", worker=size, is_manual=True)
    world.settle(rounds=1000)
    if not world.memory.phase.is_final:
        alive = {each.rank for each in world.pods.values() if each.group == "worker" and not each.is_terminating}
        assert len(alive) == size
