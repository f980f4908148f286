"""What a plan that succeeded has brought about, and what newcomers get."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.model.observed import PodExit, PodPhase
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase
from tests.engine.mastered import SECOND, elastic_job, elastic_world, foreign, members, names, pod, write


def test_a_plan_by_hand_waits_for_a_master_that_may_take_it() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "mine", worker=2, is_manual=True)
    for _ in range(5):
        world.perform(world.decide())
    assert world.plans["mine"].status_message == "waiting for the job's master to claim the plan"
    world.plans["mine"] = replace(world.plans["mine"], is_claimed=True)
    for _ in range(5):
        world.perform(world.decide())
    assert world.plan_phases["mine"][-1] is PlanPhase.SCALING
    assert not names(world, "worker")
    for index, phase in enumerate((PlanPhase.SCALING, PlanPhase.SUCCEEDED)):
        foreign(world, "worker", index)
        for _ in range(5):
            world.perform(world.decide())
        assert world.plan_phases["mine"][-1] is phase


def test_a_plan_that_a_master_took_and_never_carried_out_fails() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "mine", worker=2, is_manual=True)
    world.plans["mine"] = replace(world.plans["mine"], is_claimed=True)
    world.settle()
    said = "the job's master has not executed the plan within 0:10:00"
    assert (world.plans["mine"].phase, world.plans["mine"].status_message) == (PlanPhase.FAILED, said)


def test_a_plan_that_removes_pods_is_done_when_they_are_gone() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    for name, wanted in (("by-size", {"worker": 1}), ("by-name", {"remove_pods": (pod("worker", id=0),)})):
        write(world, name, is_manual=True, **wanted)
        for _ in range(8):
            world.perform(world.decide())
        assert any(each.is_terminating for each in world.pods.values())
        assert world.plans[name].phase is PlanPhase.SCALING
        world.settle()
        assert world.plans[name].phase is PlanPhase.SUCCEEDED
    assert names(world, "worker") == []


def test_a_plan_whose_replacement_failed_fails() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    world.obstacle = lambda each: each.name.endswith("worker-1")
    write(world, "p1", is_manual=True, migrate_pods=(pod("worker", id=0),))
    for _ in range(8):
        world.perform(world.decide())
    failed = world.pods["demo-edljob-worker-1"]
    world.pods[failed.name] = replace(failed, phase=PodPhase.FAILED, exit=PodExit(code=1, container="trainer"))
    world.settle()
    said = "demo-edljob-worker-0 stays: the replacement failed"
    assert (world.plans["p1"].phase, world.plans["p1"].status_message) == (PlanPhase.FAILED, said)


def test_a_plan_whose_replacement_is_lost_before_it_runs_fails() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    world.obstacle = lambda each: each.name.endswith("worker-1")
    write(world, "p1", is_manual=True, migrate_pods=(pod("worker", id=0),))
    for _ in range(8):
        world.perform(world.decide())
    del world.pods["demo-edljob-worker-1"]
    world.settle()
    assert world.plans["p1"].phase is PlanPhase.FAILED
    assert members(world, "worker") == {0: 0}


def test_a_plan_whose_pods_stay_fails_and_names_them() -> None:
    world = elastic_world(rules=OperatorConfig(plan_timeout=timedelta(minutes=1)))
    write(world, "p0", worker=2)
    world.settle()
    write(world, "less", worker=1, is_manual=True)
    for _ in range(8):
        world.perform(world.decide())
    world.pass_time(timedelta(minutes=1))
    world.perform(world.decide())
    said = "not completed within 0:01:00: demo-edljob-worker-1 still exists"
    assert (world.plans["less"].phase, world.plans["less"].status_message) == (PlanPhase.FAILED, said)


def test_resources_without_another_size_are_those_of_newcomers() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    first = dict(world.pods)
    for name, size in (("none", None), ("equal", 2)):
        wanted = {"worker": PlanGroupRequest(size=size, resources={"cpu": "2" if size else "1"})}
        write(world, name, is_manual=True, group_requests=wanted)
        world.settle()
        assert world.plan_phases[name] == [*PlanPhase][:4]
    assert [event.message.details[0].reason for event in world.events][-1] == "MemberResourcesChanged"
    assert world.pods == first
    world.pass_time(SECOND)
    write(world, "p1", worker=3)
    write(world, "p2", create_pods=(pod("worker"), pod("worker", resources={"memory": "1Gi"})))
    write(world, "p3", migrate_pods=(pod("worker", id=0),))
    world.settle()
    resources = {index: member.resources for index, member in world.memory.group("worker").members.items()}
    assert {resources[index].get("cpu") for index in (2, 3, 4, 5)} == {"2"}
    assert resources[4] == {"cpu": "2", "memory": "1Gi"}


def test_resources_that_a_master_repeats_are_no_news_and_others_are() -> None:
    world = elastic_world()
    usual = {"cpu": "1", "memory": "64Mi"}
    write(world, "p0", group_requests={"worker": PlanGroupRequest(size=2, resources=usual)})
    world.settle()
    world.pass_time(SECOND)
    more = {"worker": PlanGroupRequest(resources={"memory": "1Gi"})}
    write(world, "more", is_manual=True, group_requests=more)
    world.settle()
    write(world, "p1", create_pods=(pod("worker", id=2, resources=usual),))
    write(world, "p2", create_pods=(pod("worker", id=3, resources={**usual, "memory": "4Gi"}),))
    write(world, "p3", group_requests={"worker": PlanGroupRequest(size=5, resources=usual)})
    world.settle()
    members = world.memory.group("worker").members
    assert members[2].resources == members[4].resources == {"cpu": "1", "memory": "1Gi"}
    assert members[3].resources == {"cpu": "1", "memory": "4Gi"}
