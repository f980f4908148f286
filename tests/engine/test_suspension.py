"""Suspending and resuming."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.model.actions import CreatePod, CreateService, DeletePod, DeleteService
from pliant.model.job import ResizeMode
from pliant.model.messages import MessageReason, message
from pliant.model.observed import PodPhase
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaOutcome, RestartCause, SizeRequester
from tests.builders import NOON, StoredJob, make_group, make_job, make_pod, seeing
from tests.engine.rulings import (
    actions_of,
    decided,
    event_of,
    intent_of,
    is_transition,
    names,
    of_workers,
    remembering,
    status_of,
    wait_of,
)
from tests.engine.world import World

UNDER_WAY = [JobPhase.PENDING, JobPhase.CREATING, JobPhase.RUNNING, JobPhase.RESTARTING]
MINUTE = timedelta(minutes=1)


def suspended_job(state: EngineState | None = None, **fields: Any) -> StoredJob:
    return make_job(make_group(**fields), state=state, is_suspended=True)


@pytest.mark.parametrize("phase", UNDER_WAY)
def test_a_job_is_suspended_from_any_phase_it_is_under_way_in(phase: JobPhase) -> None:
    decision = decided(suspended_job(remembering(phase)), seeing(make_pod(0), make_pod(1)))
    assert intent_of(decision).phase is JobPhase.SUSPENDED
    assert intent_of(decision).timeline[-1].reason == "Suspended"
    event = event_of(decision)
    assert (event.reason, event.is_warning) == ("Suspended", False)


def test_a_suspended_job_sends_everybody_home_and_makes_nobody() -> None:
    state = intent_of(decided(suspended_job(remembering()), seeing(make_pod(0), make_pod(1))))
    decision = decided(suspended_job(state), seeing(make_pod(0), make_pod(1, is_terminating=True)))
    assert names(decision, DeletePod) == ["demo-worker-0"]
    assert names(decision, DeleteService) == ["demo-worker-0", "demo-worker-1"]
    empty = decided(suspended_job(state), now=NOON + MINUTE)
    assert actions_of(empty) == ()
    assert wait_of(empty) is None


def test_a_job_suspended_from_the_start_has_no_pods() -> None:
    world = World(suspended_job(), lambda pod: 0)
    world.settle()
    assert world.phases == [JobPhase.SUSPENDED]
    assert (world.created, world.services) == ([], {})


def test_the_message_tells_who_is_still_to_go() -> None:
    state = of_workers(JobPhase.SUSPENDED, applied_size=2, attempt=1, job_min_attempt=1)
    still = status_of(decided(suspended_job(state), seeing(make_pod(0, is_terminating=True))))
    assert still.message == message(MessageReason.SUSPENDED, pods=1)
    assert status_of(decided(suspended_job(state))).message == message(MessageReason.SUSPENDED)


def test_who_comes_after_never_meets_those_from_before() -> None:
    state = intent_of(decided(suspended_job(remembering()), seeing(make_pod(0), make_pod(1))))
    again = intent_of(decided(make_job(state=state), seeing(make_pod(0, is_terminating=True))))
    assert (again.phase, again.timeline[-1].reason) == (JobPhase.PENDING, "Resumed")
    early = decided(make_job(state=again), seeing(make_pod(0, is_terminating=True)))
    assert names(early, CreatePod) == []
    (first, _) = [each for each in actions_of(decided(make_job(state=again))) if isinstance(each, CreatePod)]
    assert first.manifest["metadata"]["labels"]["RestartCount"] == "1"


def test_nobody_of_a_group_that_is_gone_may_still_be_there() -> None:
    state = of_workers(JobPhase.PENDING, applied_size=2, attempt=1, job_min_attempt=1)
    assert names(decided(make_job(state=state), seeing(make_pod(0, group="old", is_terminating=True))), CreatePod) == []


def test_a_suspension_is_no_restart() -> None:
    state = intent_of(decided(suspended_job(remembering(restart_count=2)), seeing(make_pod(0))))
    assert (state.restart_count, state.group("worker").restarts_by_cause, state.group("worker").attempt) == (2, {}, 1)


def test_those_who_are_done_stay_done() -> None:
    ended = {0: 0, 1: -1}
    world = World(make_job(), lambda pod: ended[pod.index])
    world.settle()
    world.suspend()
    world.settle()
    assert world.pods == {}
    world.resume()
    world.settle()
    assert world.created == [("demo-worker-0", 0), ("demo-worker-1", 0), ("demo-worker-1", 1)]


def test_one_who_was_done_a_moment_ago_stays_done_too() -> None:
    seen = seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1))
    memory = intent_of(decided(suspended_job(remembering()), seen)).group("worker")
    assert memory.replica_outcomes == {0: ReplicaOutcome.SUCCEEDED}


def test_one_who_failed_as_the_job_was_suspended_gets_another_chance() -> None:
    seen = seeing(make_pod(0, PodPhase.FAILED, code=1), make_pod(1))
    state = intent_of(decided(suspended_job(remembering()), seen))
    assert (state.phase, state.group("worker").replica_outcomes) == (JobPhase.SUSPENDED, {})


def test_completion_beats_suspension() -> None:
    seen = seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.SUCCEEDED))
    assert intent_of(decided(suspended_job(remembering()), seen)).phase is JobPhase.TERMINATING


def test_what_happens_to_those_who_leave_does_not_count() -> None:
    state = intent_of(decided(suspended_job(remembering()), seeing(make_pod(0), make_pod(1))))
    seen = seeing(make_pod(0, PodPhase.FAILED, code=143), make_pod(1, PodPhase.SUCCEEDED))
    assert not is_transition(decided(suspended_job(state), seen))


def test_the_clock_stands_while_suspended_and_goes_on_afterwards() -> None:
    started = remembering(active_since=NOON, active_seconds_before=5.0)
    asleep = intent_of(decided(suspended_job(started), seeing(make_pod(0), make_pod(1)), NOON + MINUTE))
    assert (asleep.active_since, asleep.active_seconds_before) == (None, 65.0)
    again = intent_of(decided(make_job(state=asleep), now=NOON + 60 * MINUTE))
    assert again.resumed_at == NOON + 60 * MINUTE
    up = seeing(make_pod(0, attempt=1), make_pod(1, attempt=1))
    running = status_of(decided(make_job(state=again), up, NOON + 61 * MINUTE))
    assert (running.phase, running.first_running_at) == (JobPhase.RUNNING, NOON)
    assert (running.active_since, running.active_seconds_before) == (NOON + 61 * MINUTE, 65.0)


def test_templates_and_groups_may_be_others_after_a_suspension() -> None:
    groups = {
        "ps": GroupState(applied_size=1, template_hash="old"),
        "worker": GroupState(applied_size=2, template_hash="old"),
    }
    state = remembering(JobPhase.SUSPENDED, groups=groups)
    job = make_job(make_group(template_hash="new"), make_group("chief", 1, template_hash="first"), state=state)
    again = intent_of(decided(job))
    assert {name: memory.template_hash for name, memory in again.groups.items()} == {"worker": "new", "chief": "first"}
    assert set(names(decided(make_job(*job.groups, state=again)), CreateService)) == {
        "demo-worker-0",
        "demo-worker-1",
        "demo-chief-0",
    }


def test_while_a_job_is_under_way_the_first_template_is_the_one_remembered() -> None:
    state = of_workers(applied_size=2, template_hash="old")
    job = make_job(make_group(template_hash="new"), state=state)
    decision = decided(job, seeing(make_pod(0), make_pod(1)))
    assert status_of(decision).group("worker").template_hash == "old"


def test_budgets_survive_a_suspension() -> None:
    state = of_workers(attempt=2, applied_size=2, restarts_by_cause={RestartCause.APP: 2})
    asleep = intent_of(decided(suspended_job(state), seeing(make_pod(0, attempt=2))))
    again = intent_of(decided(make_job(state=asleep)))
    assert again.group("worker").restarts_by_cause == {RestartCause.APP: 2}


@pytest.mark.parametrize("phase", [JobPhase.TERMINATING, JobPhase.SUCCEED])
def test_a_job_that_has_ended_cannot_be_suspended(phase: JobPhase) -> None:
    world = World(make_job(make_group(size=1)), lambda pod: 0)
    world.settle_until(phase)
    world.suspend()
    world.settle()
    assert world.phases[-1] is JobPhase.SUCCEED
    assert JobPhase.SUSPENDED not in world.phases


def test_a_group_that_is_held_takes_on_another_size_while_it_rests() -> None:
    held = make_group(
        size=2,
        resize_mode=ResizeMode.FIXED,
        fixed_size_reason="they count each other",
        requested_sizes={SizeRequester.SPEC: 2},
    )
    world = World(make_job(held), lambda pod: 0 if pod.index == 0 else -1)
    world.settle()
    world.suspend()
    world.settle()
    world.resize("worker", spec=4)
    world.resume()
    world.settle()
    assert world.memory.group("worker").applied_size == 4
    names, attempts = zip(*world.created[-4:], strict=True)
    assert set(names) == {f"demo-worker-{index}" for index in range(4)}, "all are told, and who had ended too"
    assert len(set(attempts)) == 1
