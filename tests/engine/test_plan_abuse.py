"""Plans that ask for too much: they fail alone, and cost the operator no more than their size."""

from __future__ import annotations

from dataclasses import replace

from pliant.model.actions import Act, CreatePod
from pliant.model.scale_plans import PlanPhase
from tests.engine.mastered import elastic_job, elastic_world, foreign, members, names, pod, watched, write
from tests.engine.world import World


def passed(world: World, *refused: str, times: int = 6) -> None:
    """Let some passes go by in a cluster that will not let these pods in."""
    outside = frozenset(refused)
    for _ in range(times):
        decision = world.decide()
        if isinstance(decision, Act):
            made = (each for each in decision.actions if not (isinstance(each, CreatePod) and each.name in outside))
            decision = replace(decision, actions=tuple(made))
        world.perform(decision)


def test_a_plan_whose_list_no_cluster_could_keep_fails_and_the_next_one_has_its_turn() -> None:
    world = elastic_world()
    resource = {f"example.com/{number:050}": "1" for number in range(20)}
    many = tuple(pod("worker", id=index, resources=resource) for index in range(900))
    write(world, "huge", is_manual=True, create_pods=many)
    write(world, "small", worker=1)
    world.settle()
    assert world.plan_phases["huge"][-1] is PlanPhase.FAILED
    assert "the list of 900 members takes" in world.plans["huge"].status_message
    assert names(world, "worker") == ["demo-edljob-worker-0"]


def test_thousands_of_members_by_name_come_and_go() -> None:
    world = elastic_world()
    many = range(2_000)
    write(world, "p0", create_pods=tuple(pod("worker", id=index, rank=index) for index in many))
    for _ in range(5):
        world.perform(world.decide())
    assert len(members(world, "worker")) == 2_000
    write(world, "p1", remove_pods=tuple(pod("worker", id=index) for index in many[1:]))
    for _ in range(5):
        world.perform(world.decide())
    assert members(world, "worker") == {0: 0}


def test_an_id_twice_in_one_plan_is_one_member() -> None:
    world = elastic_world()
    write(world, "p0", create_pods=(pod("worker", id=3, rank=0), pod("worker", id=3, rank=1), pod("worker", rank=0)))
    world.settle()
    assert members(world, "worker") == {3: 0, 4: 0}


def test_whom_two_lines_send_away_leaves_once() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    write(world, "p1", remove_pods=(pod("worker", id=1), pod("worker", name="demo-edljob-worker-1")))
    world.settle()
    assert members(world, "worker") == {0: 0}
    assert world.plan_phases["p1"][-1] is PlanPhase.SUCCEEDED


def test_a_member_gives_way_to_one_successor_however_often_a_plan_says_so() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    write(world, "p1", migrate_pods=(pod("worker", id=0), pod("worker", id=0), pod("worker", rank=0)))
    world.settle()
    assert members(world, "worker") == {1: 0}


def test_pods_of_other_jobs_are_nobody_whom_a_plan_could_send_away() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    before = dict(world.pods)
    write(world, "p1", remove_pods=(pod("worker", name="other-edljob-worker-0"), pod("worker", name="web-0")))
    world.settle()
    assert world.pods == before


def test_whom_a_deleted_plan_asked_for_in_vain_does_not_keep_later_plans_waiting() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    passed(world, "demo-edljob-worker-1")
    assert world.plan_phases["p0"][-1] is PlanPhase.SCALING
    del world.plans["p0"]
    write(world, "p1", ps=1)
    passed(world, "demo-edljob-worker-1")
    assert names(world, "ps") == ["demo-edljob-ps-0"]


def test_members_lost_while_an_edit_asks_for_more_than_there_is_room_for_come_back() -> None:
    world = elastic_world(elastic_job(watched("worker", 1)))
    write(world, "p0", worker=1)
    world.settle()
    world.resize("worker", spec=3)
    passed(world, "demo-edljob-worker-2")
    del world.pods["demo-edljob-worker-0"]
    write(world, "p1", create_pods=(pod("worker", id=9, rank=0),))
    passed(world, "demo-edljob-worker-2")
    assert "demo-edljob-worker-9" in names(world, "worker")


def test_an_id_far_beyond_the_others_is_refused_and_uses_none_up() -> None:
    world = elastic_world()
    write(world, "p0", is_manual=True, create_pods=(pod("worker", id=999_999_999),))
    write(world, "p1", worker=1)
    world.settle()
    assert world.plans["p0"].status_message == "worker-999999999: the ID is too far above the next ID, 1"
    assert members(world, "worker") == {0: 0}


def test_a_label_that_tells_of_an_id_far_beyond_the_others_uses_none_up() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    foreign(world, "worker", 999_999_999, rank=0)
    write(world, "p0", create_pods=(pod("worker", rank=1),))
    world.settle()
    assert members(world, "worker") == {0: 1}
