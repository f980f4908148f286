"""Before the operator deletes a running replica, the replica may save its state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pliant.engine.members import list_members
from pliant.model.actions import AllowEviction, CreateDisruptionBudget, CreatePod, DeletePod, DeleteService
from pliant.model.departures import Departure, DepartureReason, format_indexes, parse_indexes
from pliant.model.job import EndRequest, ResizeMode
from pliant.model.observed import NodeFault, ObservedPod, PodPhase
from pliant.model.state import EngineState, JobPhase, SizeRequester
from tests.builders import NOON, StoredJob, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import actions_of, decided, intent_of, is_transition, names, stored_by, wait_of
from tests.engine.world import World, indexes_of

SECOND = timedelta(seconds=1)


def running_job(size: int = 4, **fields: Any) -> StoredJob:
    """An elastic job whose workers run."""
    group = make_group(size=size, min_size=1, max_size=8, is_elastic=True, **fields)
    world = World(make_job(group), lambda pod: -1)
    world.settle()
    return world.job


def workers(*indexes: int, knows: int | None = 0, **fields: Any) -> list[ObservedPod]:
    return [make_pod(index, acknowledged_checkpoint=knows, **fields) for index in indexes]


def scaled(job: StoredJob, size: int) -> StoredJob:
    group = replace(job.groups[0], requested_sizes={SizeRequester.SCALE: size})
    return replace(job, groups=(group,))


def after(job: StoredJob, pods: list[ObservedPod], later: timedelta = timedelta(0)) -> StoredJob:
    """The job after the transition that is due now."""
    return replace(job, state=intent_of(decided(job, seeing(*pods), NOON + later)))


def departures_of(job: StoredJob) -> dict[str, Departure]:
    assert job.state is not None
    return job.state.departures


def test_a_resize_asks_those_who_leave_to_save_their_state() -> None:
    decision = decided(scaled(running_job(), 2), seeing(*workers(0, 1, 2, 3)))
    state = intent_of(decision)
    assert {(each.index, each.request, each.reason) for each in state.departures.values()} == {
        (2, 1, DepartureReason.RESIZED),
        (3, 1, DepartureReason.RESIZED),
    }
    assert {each.deadline for each in state.departures.values()} == {NOON + 30 * SECOND}
    assert [getattr(action, "reason", "") for action in actions_of(decision)] == ["Resized", "CheckpointRequested"]
    assert [entry.reason for entry in state.timeline[-2:]] == ["Resized", "CheckpointRequested"]


def test_they_are_members_no_longer_as_soon_as_they_are_asked() -> None:
    job = running_job()
    assert job.state is not None
    assert job.state.membership is not None
    asked = after(scaled(job, 2), workers(0, 1, 2, 3))
    assert asked.state is not None
    assert asked.state.membership is not None
    assert asked.state.membership.indexes == {"worker": "0-1"}
    assert asked.state.membership.generation == job.state.membership.generation + 1


def test_their_pods_stay_until_they_have_saved_their_state() -> None:
    job, pods = scaled(running_job(), 3), workers(0, 1, 2, 3)
    job = after(job, pods)
    waiting = decided(job, seeing(*pods), NOON + SECOND)
    assert names(waiting, DeletePod) == []
    assert wait_of(waiting) == 29 * SECOND
    saved = decided(job, seeing(*workers(0, 1, 2), *workers(3, knows=1)), NOON + SECOND)
    assert names(saved, DeletePod) == ["demo-worker-3"]
    state = stored_by(saved)
    assert state is not None
    assert [each.acknowledged_at for each in state.departures.values()] == [NOON + SECOND]
    assert state.timeline[-1].message.reason == "CheckpointSaved"


def test_those_who_do_not_answer_are_deleted_at_the_deadline() -> None:
    job, pods = scaled(running_job(), 3), workers(0, 1, 2, 3)
    decision = decided(after(job, pods), seeing(*pods), NOON + 30 * SECOND)
    assert names(decision, DeletePod) == ["demo-worker-3"]


def test_an_answer_to_an_earlier_request_is_none_to_the_next() -> None:
    job, pods = scaled(running_job(), 3), workers(0, 1, 2, 3)
    job = after(job, pods)
    assert names(decided(job, seeing(*workers(0, 1, 2, 3, knows=0))), DeletePod) == []
    again = after(scaled(job, 2), workers(0, 1, 2, 3))
    assert {each.index: each.request for each in departures_of(again).values()} == {3: 1, 2: 2}
    decision = decided(again, seeing(*workers(0, 1), *workers(2, 3, knows=1)), NOON + SECOND)
    assert names(decision, DeletePod) == ["demo-worker-3"]


@pytest.mark.parametrize(
    "pods",
    [
        workers(3, knows=None),
        workers(3, phase=PodPhase.PENDING),
        workers(3, node="n", node_fault=NodeFault(description="is gone", since=NOON)),
    ],
    ids=["never announced", "not running", "on a dead node"],
)
def test_who_cannot_answer_is_deleted_at_once(pods: list[ObservedPod]) -> None:
    seen = [*workers(0, 1, 2), *pods]
    job = after(scaled(running_job(), 3), seen)
    assert departures_of(job) == {}
    assert names(decided(job, seeing(*seen)), DeletePod) == ["demo-worker-3"]


def test_a_resize_that_is_taken_back_takes_the_request_back() -> None:
    job, pods = scaled(running_job(), 3), workers(0, 1, 2, 3)
    job = after(scaled(after(job, pods), 4), pods)
    assert departures_of(job) == {}
    assert names(decided(job, seeing(*pods), NOON + 60 * SECOND), DeletePod) == []


def test_a_suspended_job_saves_its_state_as_a_whole() -> None:
    job, pods = replace(running_job(), is_suspended=True), workers(0, 1, 2, 3)
    job = after(job, pods)
    assert job.state is not None
    assert {each.reason for each in departures_of(job).values()} == {DepartureReason.SUSPENDED}
    assert job.state.membership is not None
    assert job.state.membership.indexes == {"worker": "0-3"}, "all members take part in a common checkpoint"
    held = decided(job, seeing(*pods), NOON + SECOND)
    assert names(held, DeletePod) + names(held, DeleteService) == []
    partly = decided(job, seeing(*workers(0, 1, knows=1), *workers(2, 3)), NOON + SECOND)
    assert names(partly, DeletePod) == ["demo-worker-0", "demo-worker-1"]
    assert names(partly, DeleteService) == []


def test_a_preempted_job_saves_its_state() -> None:
    request = EndRequest(phase=JobPhase.PREEMPTED, message="a job of higher priority needs the nodes")
    job, pods = after(replace(running_job(), end_request=request), workers(0, 1, 2, 3)), workers(0, 1, 2, 3)
    assert {each.reason for each in departures_of(job).values()} == {DepartureReason.PREEMPTED}
    assert names(decided(job, seeing(*pods), NOON + SECOND), DeletePod) == []
    assert len(names(decided(job, seeing(*workers(0, 1, 2, 3, knows=1))), DeletePod)) == 4


def test_all_replicas_save_their_state_if_a_resize_restarts_them() -> None:
    job = scaled(running_job(resize_mode=ResizeMode.RESTART), 3)
    job = after(job, workers(0, 1, 2, 3))
    assert {each.index for each in departures_of(job).values()} == {0, 1, 2, 3}


def test_a_failure_does_not_wait_for_a_checkpoint() -> None:
    group = make_group(size=3, restart=restarting(scope=restarting().scope.REPLICA))
    world = World(make_job(group), lambda pod: -1)
    world.settle()
    pods = [*workers(0, 1), make_pod(2, PodPhase.FAILED, code=1)]
    job = after(world.job, pods)
    assert departures_of(job) == {}
    assert len(names(decided(job, seeing(*pods)), DeletePod)) == 3


def test_replicas_on_a_cordoned_node_are_asked_early_and_stay() -> None:
    job, pods = running_job(), [*workers(0, 1), *workers(2, 3, is_node_draining=True)]
    job = after(job, pods)
    assert {each.index for each in departures_of(job).values()} == {2, 3}
    late = decided(job, seeing(*pods), NOON + 90 * SECOND)
    assert not is_transition(late)
    assert names(late, DeletePod) == []
    over = stored_by(decided(job, seeing(*workers(0, 1, 2, 3)), NOON + SECOND))
    assert over is not None
    assert over.departures == {}


def indexes_after(job: StoredJob, pods: list[ObservedPod], size: int) -> list[int]:
    job = after(scaled(job, size), pods)
    assert job.state is not None
    return list(indexes_of(job.groups[0], job.state.group("worker")))


def test_who_leaves_is_who_costs_least() -> None:
    job = running_job()
    assert indexes_after(job, workers(0, 1, 2, 3), 2) == [0, 1]
    assert indexes_after(job, [*workers(0, 2, 3), *workers(1, deletion_cost=-1)], 3) == [0, 2, 3]
    assert indexes_after(job, [*workers(0, 2, 3), *workers(1, is_node_draining=True)], 3) == [0, 2, 3]
    assert indexes_after(job, [*workers(0, 2, 3), *workers(1, is_on_spot_node=True)], 3) == [0, 2, 3]
    older = workers(0, 2, 3, started_at=NOON - 600 * SECOND)
    assert indexes_after(job, [*older, *workers(1, started_at=NOON)], 3) == [0, 2, 3]
    failed = make_pod(1, PodPhase.FAILED, code=1)
    assert indexes_after(job, [*workers(0, 2, 3), failed], 3) == [0, 2, 3]
    assert indexes_after(job, [*workers(0, deletion_cost=-9), *workers(1, 2, 3)], 1) == [0], "the first one stays"


def test_a_hole_is_filled_by_the_next_one_that_joins() -> None:
    job = after(scaled(running_job(), 2), [*workers(0, 3), *workers(1, 2, deletion_cost=-1)])
    assert job.state is not None
    assert list(indexes_of(job.groups[0], job.state.group("worker"))) == [0, 3]
    assert indexes_after(job, workers(0, 3), 3) == [0, 1, 3]
    assert indexes_after(job, workers(0, 3), 6) == [0, 1, 2, 3, 4, 5]


def test_members_are_listed_in_rank_order_with_their_addresses() -> None:
    job = after(scaled(running_job(), 3), [*workers(0, 2, 3), *workers(1, deletion_cost=-1)])
    assert job.state is not None
    listed = [(each.name, each.rank, each.address) for each in list_members(job, job.state)]
    assert listed == [
        ("worker-0", 0, "demo-worker-0.default"),
        ("worker-2", 1, "demo-worker-2.default"),
        ("worker-3", 2, "demo-worker-3.default"),
    ]


def test_no_membership_is_published_for_a_job_without_elastic_groups() -> None:
    world = World(make_job(), lambda pod: -1)
    world.settle()
    assert world.memory.membership is None


def test_indexes_are_stored_as_ranges() -> None:
    for indexes, text in (([], ""), ([0], "0"), ([0, 1, 2, 5], "0-2,5"), ([3, 7, 8], "3,7-8")):
        assert format_indexes(indexes) == text
        assert list(parse_indexes(text)) == indexes


def test_negative_indexes_are_left_out() -> None:
    assert format_indexes([-2, -1, 0, 1]) == "0-1"


def test_the_state_without_departures_takes_no_room() -> None:
    assert EngineState(phase=JobPhase.RUNNING, started_at=NOON).departures == {}


def protected(*indexes: int, **fields: Any) -> list[ObservedPod]:
    return workers(*indexes, is_eviction_blocked=True, is_node_draining=True, **fields)


def test_a_drain_is_held_until_the_state_is_saved() -> None:
    job = replace(running_job(), has_disruption_budget=True)
    staying = workers(0, 1, is_eviction_blocked=True)
    job = after(job, [*staying, *protected(2, 3)])
    assert names(decided(job, seeing(*staying, *protected(2, 3)), NOON + SECOND), AllowEviction) == []
    saved = decided(job, seeing(*staying, *protected(2), *protected(3, knows=1)), NOON + SECOND)
    assert names(saved, AllowEviction) == ["demo-worker-3"]
    late = decided(job, seeing(*staying, *protected(2, 3)), NOON + 30 * SECOND)
    assert names(late, AllowEviction) == ["demo-worker-2", "demo-worker-3"]


def test_a_drain_is_not_held_for_replicas_that_never_announced_themselves() -> None:
    job = replace(running_job(), has_disruption_budget=True)
    decision = decided(job, seeing(*workers(0, 1, 2, knows=None), *protected(3, knows=None)))
    assert names(decision, AllowEviction) == ["demo-worker-3"]


def test_the_budget_is_created_with_the_pods() -> None:
    group = make_group(size=2, min_size=1, is_elastic=True)
    decision = decided(make_job(group, has_disruption_budget=True))
    [budget] = [action for action in actions_of(decision) if isinstance(action, CreateDisruptionBudget)]
    selected = budget.manifest["spec"]["selector"]["matchLabels"].items()
    pods = [action for action in actions_of(decision) if isinstance(action, CreatePod)]
    assert all(selected <= pod.manifest["metadata"]["labels"].items() for pod in pods)
    assert names(decided(make_job(group)), CreateDisruptionBudget) == []
