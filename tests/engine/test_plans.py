"""Plans of a job's master, and plans by hand: who joins, who leaves, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.model.observed import PodExit, PodPhase
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase
from pliant.model.state import JobPhase
from tests.engine.mastered import (
    MASTER,
    MASTER_POD,
    SECOND,
    elastic_job,
    elastic_world,
    foreign,
    members,
    names,
    pod,
    started,
    watched,
    write,
)
from tests.engine.rulings import actions_of, is_transition
from tests.engine.world import World


def test_a_job_begins_with_its_master_alone() -> None:
    world = elastic_world()
    assert list(world.pods) == [MASTER_POD]
    assert list(world.services) == ["elasticjob-demo-dlrover-master"]
    assert world.granted
    assert world.memory.phase is JobPhase.RUNNING


def test_a_plan_makes_members_and_comes_through_every_state() -> None:
    world = elastic_world()
    write(world, "p0", worker=2, ps=1)
    world.settle()
    assert names(world, "worker") == ["demo-edljob-worker-0", "demo-edljob-worker-1"]
    assert names(world, "ps") == ["demo-edljob-ps-0"]
    assert world.plan_phases["p0"] == [PlanPhase.CREATED, PlanPhase.PENDING, PlanPhase.SCALING, PlanPhase.SUCCEEDED]
    assert not world.memory.plan_executions


def test_a_member_that_vanished_is_its_masters_concern() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    del world.pods["demo-edljob-worker-1"]
    world.settle()
    assert names(world, "worker") == ["demo-edljob-worker-0"]
    write(world, "p1", create_pods=(pod("worker", id=2, rank=1),))
    world.settle()
    assert members(world, "worker") == {0: 0, 2: 1}
    assert world.memory.group("worker").members[2].relaunches == 1


def test_thirty_lost_members_come_back_by_one_plan() -> None:
    world = elastic_world()
    write(world, "p0", worker=30)
    world.settle()
    for name in names(world, "worker"):
        del world.pods[name]
    write(world, "p1", create_pods=tuple(pod("worker", id=30 + rank, rank=rank) for rank in range(30)))
    world.settle()
    assert sorted(members(world, "worker").values()) == list(range(30))
    assert len(names(world, "worker")) == 30


def test_a_failed_member_keeps_its_pod_and_loses_its_rank() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    failed = world.pods["demo-edljob-worker-1"]
    world.pods[failed.name] = replace(failed, phase=PodPhase.FAILED, exit=PodExit(code=3, container="trainer"))
    write(world, "p1", create_pods=(pod("worker", id=2, rank=1),))
    world.settle()
    assert failed.name in world.pods
    assert world.memory.group("worker").members[2].relaunches == 1
    assert not world.memory.phase.is_final


def test_the_highest_ranks_leave_first() -> None:
    world = elastic_world()
    write(world, "p0", worker=4)
    world.settle()
    write(world, "p1", worker=2)
    world.settle()
    assert members(world, "worker") == {0: 0, 1: 1}
    write(world, "p2", worker=3)
    world.settle()
    assert members(world, "worker") == {0: 0, 1: 1, 4: 2}  # an id is never used twice


def test_a_named_member_leaves() -> None:
    world = elastic_world()
    write(world, "p0", worker=3)
    world.settle()
    write(world, "p1", remove_pods=(pod("worker", name="demo-edljob-worker-1"), pod("worker", name="long-gone")))
    world.settle()
    assert members(world, "worker") == {0: 0, 2: 2}


def test_a_member_that_gives_way_stays_until_its_successor_runs() -> None:
    world = elastic_world()
    write(world, "p0", ps=1)
    world.settle()
    write(world, "p1", migrate_pods=(pod("ps", name="demo-edljob-ps-0", resources={"cpu": "4"}),))
    world.obstacle = lambda each: each.group == "ps"
    for _ in range(12):
        world.perform(world.decide())
        for name in sorted(world.pods):
            world.step(name)
    assert members(world, "ps") == {0: 0, 1: 0}
    assert world.plans["p1"].phase is PlanPhase.SCALING
    world.obstacle = lambda each: False
    world.settle()
    assert members(world, "ps") == {1: 0}
    assert names(world, "ps") == ["demo-edljob-ps-1"]
    assert world.plan_phases["p1"][-1] is PlanPhase.SUCCEEDED


def test_a_plan_that_takes_too_long_fails_and_leaves_things_as_they_were() -> None:
    world = elastic_world(rules=OperatorConfig(plan_timeout=timedelta(minutes=1)))
    write(world, "p0", ps=1)
    world.settle()
    world.obstacle = lambda each: each.group == "ps"
    write(world, "p1", migrate_pods=(pod("ps", name="demo-edljob-ps-0"),))
    world.settle()
    assert world.plan_phases["p1"][-1] is PlanPhase.FAILED
    assert world.plan_words["p1"] == "waiting for ps-1 to run"
    assert members(world, "ps") == {0: 0}


def test_a_plan_of_the_master_that_says_nothing_goes_at_once() -> None:
    world = elastic_world()
    write(world, "p0")
    write(world, "p1", group_requests={MASTER: PlanGroupRequest(size=0)})
    world.settle()
    assert not world.plans
    assert "p0" not in world.plan_phases


def test_a_plan_by_hand_that_changes_nothing_says_so() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    write(world, "mine", worker=1, is_manual=True)
    world.settle()
    assert world.plans["mine"].phase is PlanPhase.SUCCEEDED
    assert world.plans["mine"].status_message == "no changes required"


def test_a_plan_for_members_that_the_job_has_not_fails_and_names_those_it_has() -> None:
    world = elastic_world()
    write(world, "mine", create_pods=(pod("chef"),), is_manual=True)
    world.settle()
    assert world.plans["mine"].phase is PlanPhase.FAILED
    assert world.plans["mine"].status_message == "the job has no replicas of type chef; it has ps, worker"


def test_a_suspended_job_holds_plans_and_keeps_a_fresh_master() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    first = world.pods[MASTER_POD].uid
    world.suspend()
    world.settle()
    assert list(world.pods) == [MASTER_POD]
    assert world.pods[MASTER_POD].uid != first
    write(world, "p1", worker=3)
    world.settle()
    assert world.plans["p1"].phase is PlanPhase.PENDING
    assert world.plans["p1"].status_message == "waiting: the job is suspended"
    world.resume()
    world.settle()
    assert len(names(world, "worker")) == 3


def test_a_job_comes_back_only_when_those_who_leave_have_left() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    world.suspend()
    world.settle()
    foreign(world, "worker", 7)
    late = "demo-edljob-worker-7"
    world.pods[late] = replace(world.pods[late], is_terminating=True)
    world.resume()
    assert not is_transition(world.decide())
    del world.pods[late]
    world.settle()
    assert world.memory.phase is JobPhase.RUNNING


def test_after_a_rest_a_foreign_master_finds_the_ids_that_it_counts_from_0() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "p0", worker=2)
    world.settle()
    world.suspend()
    world.settle()
    world.resume()
    world.settle()
    write(world, "p1", worker=2)
    world.settle()
    assert names(world, "worker") == ["demo-edljob-worker-0", "demo-edljob-worker-1"]


def test_a_job_that_begins_suspended_has_its_master() -> None:
    world = elastic_world(elastic_job(is_suspended=True))
    assert list(world.pods) == [MASTER_POD]
    assert world.memory.phase is JobPhase.SUSPENDED


def test_plans_of_a_master_that_is_gone_free_their_names() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.settle()
    world.pass_time(5 * SECOND)
    started(world)
    world.settle()
    assert "p0" not in world.plans
    assert names(world, "worker") == ["demo-edljob-worker-0"]


def test_a_plan_from_before_the_first_master_is_carried_out() -> None:
    world = elastic_world()
    write(world, "p0", worker=1)
    world.pass_time(5 * SECOND)
    started(world)
    world.settle()
    assert names(world, "worker") == ["demo-edljob-worker-0"]


def test_finished_plans_are_kept_up_to_a_number_and_an_age() -> None:
    world = elastic_world(rules=OperatorConfig(plan_history_limit=3, plan_ttl=timedelta(minutes=5)))
    for number in range(8):
        write(world, f"p{number}", worker=number + 1)
        _carry_out(world)
    assert sorted(world.plans) == ["p5", "p6", "p7"]
    world.settle()
    assert not world.plans


def _carry_out(world: World) -> None:
    for _ in range(20):
        world.perform(world.decide())
        for name in sorted(world.pods):
            world.step(name)
    world.pass_time(SECOND)


def test_an_edit_of_replicas_resizes_a_job_under_its_master() -> None:
    world = elastic_world(elastic_job(watched("worker", 2)))
    write(world, "p0", worker=2)
    world.settle()
    world.resize("worker", spec=4)
    world.settle()
    assert sorted(members(world, "worker").values()) == [0, 1, 2, 3]
    world.resize("worker", spec=1)
    world.settle()
    assert members(world, "worker") == {0: 0}


def test_what_its_master_asked_for_before_an_edit_is_no_news_after_it() -> None:
    world = elastic_world(elastic_job(watched("worker", 2)))
    write(world, "p0", worker=2)
    world.settle()
    world.pass_time(SECOND)
    world.resize("worker", spec=1)
    world.settle()
    write(world, "p1", worker=2)
    world.settle()
    assert members(world, "worker") == {0: 0}
    world.pass_time(SECOND)
    write(world, "p2", worker=3)
    world.settle()
    assert sorted(members(world, "worker").values()) == [0, 1, 2]


def test_a_master_that_makes_pods_itself_is_followed() -> None:
    world = elastic_world(elastic_job(watched("worker", 2), uses_pliant_master=False))
    foreign(world, "worker", 0)
    foreign(world, "worker", 1)
    world.settle()
    assert world.memory.replica_counts["worker"].active == 2
    world.resize("worker", spec=3)
    world.settle()
    assert members(world, "worker") == {102: 2}  # far from whom the master would make next
    world.resize("worker", spec=1)
    world.settle()
    assert names(world, "worker") == ["demo-edljob-worker-0"]


def test_whom_a_foreign_master_makes_beyond_a_persons_wish_goes_for_good() -> None:
    world = elastic_world(elastic_job(watched("worker", 2), uses_pliant_master=False))
    foreign(world, "worker", 0)
    foreign(world, "worker", 1)
    world.settle()
    world.resize("worker", spec=1)
    world.settle()
    foreign(world, "worker", 2, rank=1)
    doomed = [action for action in actions_of(world.decide()) if getattr(action, "name", "") == "demo-edljob-worker-2"]
    assert [getattr(action, "prevents_relaunch", False) for action in doomed] == [True]


def test_a_plan_by_hand_waits_until_its_own_master_has_requested_members_of_every_type() -> None:
    world = elastic_world()
    write(world, "mine", worker=2, is_manual=True)
    for _ in range(5):
        world.perform(world.decide())
    assert world.plans["mine"].status_message == "waiting for the job's master to request the first members"
    write(world, "first", worker=1, ps=1)
    for _ in range(20):
        world.perform(world.decide())
    assert (len(names(world, "worker")), len(names(world, "ps"))) == (2, 1)
    assert world.plans["mine"].phase is PlanPhase.SUCCEEDED


def test_a_plan_by_hand_is_carried_out_if_its_own_master_requests_nobody() -> None:
    world = elastic_world()
    write(world, "mine", worker=2, is_manual=True)
    world.settle()
    assert len(names(world, "worker")) == 2


def test_a_plan_by_hand_is_carried_out_if_no_master_takes_it() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "mine", worker=2, is_manual=True)
    world.settle()
    assert len(names(world, "worker")) == 2
    assert world.plans["mine"].phase is PlanPhase.SUCCEEDED


def test_the_end_of_the_master_is_the_end_of_the_job_and_of_all_its_members() -> None:
    world = elastic_world()
    write(world, "p0", worker=2, ps=1)
    world.settle()
    foreign(world, "worker", 7)
    world.ending = lambda each: 0 if each.group == MASTER else -1
    world.settle()
    assert world.memory.phase is JobPhase.SUCCEED
    assert not world.pods


def test_open_plans_of_a_job_that_ended_fail() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "mine", worker=2, is_manual=True)
    world.perform(world.decide())
    world.ending = lambda each: 1 if each.group == MASTER else -1
    world.step(MASTER_POD)
    world.settle()
    assert world.memory.phase is JobPhase.FAILED
    assert (world.plans["mine"].phase, world.plans["mine"].status_message) == (PlanPhase.FAILED, "the job has ended")


def test_a_memory_that_was_lost_is_made_again_from_the_pods() -> None:
    world = elastic_world()
    write(world, "p0", worker=2)
    world.settle()
    world.job = replace(world.job, state=None)
    world.settle()
    assert members(world, "worker") == {0: 0, 1: 1}
    assert len(names(world, "worker")) == 2


def test_a_foreign_master_that_asks_for_nobody_is_started_again_a_few_times() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    made = [world.pods[MASTER_POD].uid]
    for _ in range(5):
        started(world)
        world.pass_time(timedelta(minutes=3))
        for _ in range(6):
            world.perform(world.decide())
            for name in sorted(world.pods):
                world.step(name)
        made.append(world.pods[MASTER_POD].uid)
    assert len(set(made)) == 4
    assert [event.reason for event in world.events].count("MasterIdleRestart") == 3
    assert world.memory.group(MASTER).restarts_without_disruptions == 0


def test_a_master_that_has_asked_for_members_may_do_without() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "p0", worker=1)
    world.settle()
    del world.pods["demo-edljob-worker-0"]
    first = world.pods[MASTER_POD].uid
    started(world)
    world.pass_time(timedelta(hours=1))
    world.settle()
    assert world.pods[MASTER_POD].uid == first


def test_a_job_whose_members_are_done_ends_though_its_master_does_not() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "p0", worker=2, ps=1)
    world.settle()
    world.ending = lambda each: 0 if each.group == "worker" else -1
    began = world.now
    world.settle()
    assert world.memory.phase is JobPhase.SUCCEED
    assert timedelta(minutes=2) <= world.now - began < timedelta(minutes=3)
    assert not world.pods


def test_a_job_some_member_of_which_still_works_goes_on() -> None:
    world = elastic_world(elastic_job(uses_pliant_master=False))
    write(world, "p0", worker=2)
    world.settle()
    world.ending = lambda each: 0 if each.name.endswith("worker-1") else -1
    world.settle()
    world.pass_time(timedelta(hours=1))
    world.settle()
    assert not world.memory.phase.is_final
