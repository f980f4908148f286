"""Replicas that are about to leave while something else happens to their job, its status or the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields

from pliant.engine.decide import decide
from pliant.model.actions import AllowEviction, DeletePod
from pliant.model.job import CleanPodPolicy, EndPolicy, RestartScope
from pliant.model.observed import PodPhase
from pliant.model.state import ClockOffset, JobPhase
from tests.builders import NOON, PlainFramework, StoredJob, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import actions_of, decided, intent_of, names, stored_by
from tests.engine.test_departures import after, departures_of, protected, running_job, scaled, workers
from tests.engine.world import World

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
BEFORE = ClockOffset(boot_id="a", seconds=1000.0)


def shrinking(size: int = 3) -> StoredJob:
    """A job of which the last of four workers were asked to leave."""
    return after(scaled(running_job(), size), workers(0, 1, 2, 3))


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR, timedelta(seconds=40)])
def test_deadlines_count_only_time_in_which_the_machine_was_awake(jump: timedelta) -> None:
    job = shrinking()
    assert job.state is not None
    state, pods = with_fields(job.state, clock_offset=BEFORE), seeing(*workers(0, 1, 2, 3))
    clock = ClockOffset(boot_id="a", seconds=BEFORE.seconds + jump.total_seconds())
    for later, deleted in ((10, []), (29, []), (30, ["demo-worker-3"])):
        decision = decide(job, state, pods, PlainFramework(), NOON + later * SECOND + jump, clock=clock)
        assert [action.name for action in actions_of(decision) if isinstance(action, DeletePod)] == deleted


def test_the_time_that_saving_took_does_not_count_sleep() -> None:
    job = shrinking()
    assert job.state is not None
    state, pods = with_fields(job.state, clock_offset=BEFORE), seeing(*workers(0, 1, 2), *workers(3, knows=1))
    clock = ClockOffset(boot_id="a", seconds=BEFORE.seconds + 3600)
    decision = decide(job, state, pods, PlainFramework(), NOON + 4 * SECOND + HOUR, clock=clock)
    assert decision.status is not None
    assert decision.status.state.timeline[-1].message.parameters["seconds"] == "4.0"


@pytest.mark.parametrize("known", [1, 7, 10**9])
def test_a_lost_status_does_not_turn_old_answers_into_new_ones(known: int) -> None:
    job, pods = running_job(), workers(0, 1, 2, 3, knows=known)
    assert job.state is not None
    job = after(scaled(job, 3), pods)
    assert [each.request for each in departures_of(job).values()] == [known + 1]
    assert names(decided(job, seeing(*pods), NOON + SECOND), DeletePod) == []
    saved = decided(job, seeing(*workers(0, 1, 2, knows=known), *workers(3, knows=known + 1)), NOON + SECOND)
    assert names(saved, DeletePod) == ["demo-worker-3"]


def test_a_number_that_nobody_has_asked_for_spoils_no_later_request() -> None:
    job = after(scaled(running_job(), 2), [*workers(0, 1, 2), *workers(3, knows=10**15)])
    assert {each.index: each.request for each in departures_of(job).values()} == {2: 1, 3: 1}
    decision = decided(job, seeing(*workers(0, 1, 2), *workers(3, knows=10**15)), NOON + SECOND)
    assert names(decision, DeletePod) == ["demo-worker-3"]


def test_a_failure_does_not_wait_for_those_on_a_cordoned_node() -> None:
    group = make_group(size=3, restart=restarting(scope=RestartScope.REPLICA, limit=3))
    world = World(make_job(group), lambda pod: -1)
    world.settle()
    job = after(world.job, [*workers(0, 1), *workers(2, is_node_draining=True)])
    assert [each.index for each in departures_of(job).values()] == [2]
    pods = [*workers(0), make_pod(1, PodPhase.FAILED, code=1), *workers(2, is_node_draining=True)]
    job = after(job, pods, SECOND)
    assert sorted(names(decided(job, seeing(*pods), NOON + SECOND), DeletePod)) == [
        "demo-worker-0",
        "demo-worker-1",
        "demo-worker-2",
    ]


def test_a_grace_period_of_zero_waits_for_nobody() -> None:
    job, pods = replace(running_job(), checkpoint_grace=timedelta(0)), workers(0, 1, 2, 3)
    job = after(scaled(job, 3), pods)
    assert names(decided(job, seeing(*pods)), DeletePod) == ["demo-worker-3"]


def test_another_grace_period_does_not_change_the_deadlines_of_those_who_leave() -> None:
    job, pods = replace(shrinking(), checkpoint_grace=timedelta(hours=1)), workers(0, 1, 2, 3)
    assert names(decided(job, seeing(*pods), NOON + 29 * SECOND), DeletePod) == []
    assert names(decided(job, seeing(*pods), NOON + 30 * SECOND), DeletePod) == ["demo-worker-3"]


def test_a_resize_that_is_taken_back_and_repeated_asks_again() -> None:
    pods = workers(0, 1, 2, 3)
    job = after(scaled(after(scaled(shrinking(), 4), pods), 3), pods, SECOND)
    assert [(each.index, each.request, each.at) for each in departures_of(job).values()] == [(3, 2, NOON + SECOND)]


def test_a_resize_that_is_taken_back_while_a_node_is_away_keeps_its_replica_a_member() -> None:
    pods = [make_pod(index) for index in (0, 1, 2)]
    away = [*pods, make_pod(3, PodPhase.FAILED, acknowledged_checkpoint=0, code=1)]
    job = after(scaled(shrinking(), 4), away)
    assert departures_of(job) == {}


def test_a_suspension_while_replicas_leave_asks_only_the_others() -> None:
    pods = workers(0, 1, 2, 3)
    job = after(replace(shrinking(), is_suspended=True), pods, SECOND)
    assert {each.index: each.request for each in departures_of(job).values()} == {3: 1, 0: 2, 1: 2, 2: 2}
    job = after(replace(job, is_suspended=False), pods, 2 * SECOND)
    assert len(departures_of(job)) == 4, "resuming does not take the promise back"
    assert names(decided(job, seeing(*pods), NOON + 3 * SECOND), DeletePod) == []
    assert names(decided(job, seeing(*pods), NOON + 30 * SECOND), DeletePod) == ["demo-worker-3"]


def test_a_pod_that_takes_the_place_of_one_that_left_is_not_the_one_that_was_asked() -> None:
    job = shrinking()
    pods = [*workers(0, 1, 2), replace(make_pod(3, acknowledged_checkpoint=1), uid="another")]
    decision = decided(job, seeing(*pods), NOON + SECOND)
    assert names(decision, DeletePod) == []
    assert [each.request for each in intent_of(decision).departures.values()] == [2]


def test_a_drain_is_not_held_for_servers_that_run_on_when_the_job_has_ended() -> None:
    group = make_group(size=3, complete=EndPolicy.ANY)
    world = World(make_job(group, clean=CleanPodPolicy.NONE, has_disruption_budget=True), lambda pod: -1)
    world.settle()
    pods = [make_pod(0, PodPhase.SUCCEEDED, code=0), *protected(1, 2)]
    job = after(world.job, pods, SECOND)
    assert job.state is not None
    assert job.state.phase is JobPhase.SUCCEED
    assert names(decided(job, seeing(*pods), NOON + SECOND), AllowEviction) == ["demo-worker-1", "demo-worker-2"]


def test_not_every_answer_is_a_write_of_its_own() -> None:
    job = after(replace(running_job(), is_suspended=True), workers(0, 1, 2, 3))
    some = decided(job, seeing(*workers(0, 1, knows=1), *workers(2, 3)), NOON + 0.5 * SECOND)
    assert len(names(some, DeletePod)) == 2
    assert stored_by(some) is None
    assert stored_by(decided(job, seeing(*workers(0, 1, 2, 3, knows=1)), NOON + 0.5 * SECOND)) is not None
