"""Suspending and resuming."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.model.actions import CreatePod, CreateService, DeletePod, DeleteService
from pliant.model.job import Job, Resize
from pliant.model.observed import PodPhase
from pliant.model.state import Cause, EngineState, GroupState, Outcome, Phase, Requester
from tests.builders import NOON, make_group, make_job, make_pod, seeing
from tests.engine.rulings import decided, event_of, intent_of, names, of_workers, remembering, status_of
from tests.engine.world import World

UNDER_WAY = [Phase.PENDING, Phase.CREATING, Phase.RUNNING, Phase.RESTARTING]
MINUTE = timedelta(minutes=1)


def suspended_job(state: EngineState | None = None, **fields: Any) -> Job:
    return make_job(make_group(**fields), state=state, is_suspended=True)


@pytest.mark.parametrize("phase", UNDER_WAY)
def test_a_job_is_suspended_from_any_phase_it_is_under_way_in(phase: Phase) -> None:
    decision = decided(suspended_job(remembering(phase)), seeing(make_pod(0), make_pod(1)))
    assert intent_of(decision).phase is Phase.SUSPENDED
    assert intent_of(decision).timeline[-1].what == "Suspended"
    event = event_of(decision)
    assert (event.reason, event.is_warning) == ("Suspended", False)


def test_a_suspended_job_sends_everybody_home_and_makes_nobody() -> None:
    state = intent_of(decided(suspended_job(remembering()), seeing(make_pod(0), make_pod(1))))
    decision = decided(suspended_job(state), seeing(make_pod(0), make_pod(1, is_leaving=True)))
    assert names(decision, DeletePod) == ["demo-worker-0"]
    assert names(decision, DeleteService) == ["demo-worker-0", "demo-worker-1"]
    empty = decided(suspended_job(state), now=NOON + MINUTE)
    assert empty.actions == ()
    assert empty.look_again is None


def test_a_job_suspended_from_the_start_has_no_pods() -> None:
    world = World(suspended_job(), lambda pod: 0)
    world.settle()
    assert world.phases == [Phase.SUSPENDED]
    assert (world.created, world.services) == ([], {})


def test_the_message_tells_who_is_still_to_go() -> None:
    state = of_workers(Phase.SUSPENDED, size=2, attempt=1, job_floor=1)
    still = status_of(decided(suspended_job(state), seeing(make_pod(0, is_leaving=True))))
    assert still.message == "suspended; 1 pod still to go"
    assert status_of(decided(suspended_job(state))).message == "suspended"


def test_who_comes_after_never_meets_those_from_before() -> None:
    state = intent_of(decided(suspended_job(remembering()), seeing(make_pod(0), make_pod(1))))
    again = intent_of(decided(make_job(state=state), seeing(make_pod(0, is_leaving=True))))
    assert (again.phase, again.timeline[-1].what) == (Phase.PENDING, "Resumed")
    early = decided(make_job(state=again), seeing(make_pod(0, is_leaving=True)))
    assert names(early, CreatePod) == []
    (first, _) = [each for each in decided(make_job(state=again)).actions if isinstance(each, CreatePod)]
    assert first.manifest["metadata"]["labels"]["RestartCount"] == "1"


def test_nobody_of_a_group_that_is_gone_may_still_be_there() -> None:
    state = of_workers(Phase.PENDING, size=2, attempt=1, job_floor=1)
    assert (
        names(decided(make_job(state=state), seeing(make_pod(0, group="old", is_leaving=True))), CreatePod) == []
    )


def test_a_suspension_is_no_restart() -> None:
    state = intent_of(decided(suspended_job(remembering(restarts=2)), seeing(make_pod(0))))
    assert (state.restarts, state.group("worker").restarts, state.group("worker").attempt) == (2, {}, 1)


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
    assert memory.finished == {0: Outcome.SUCCEEDED}


def test_one_who_failed_as_the_job_was_suspended_gets_another_chance() -> None:
    seen = seeing(make_pod(0, PodPhase.FAILED, code=1), make_pod(1))
    state = intent_of(decided(suspended_job(remembering()), seen))
    assert (state.phase, state.group("worker").finished) == (Phase.SUSPENDED, {})


def test_completion_beats_suspension() -> None:
    seen = seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.SUCCEEDED))
    assert intent_of(decided(suspended_job(remembering()), seen)).phase is Phase.TERMINATING


def test_what_happens_to_those_who_leave_does_not_count() -> None:
    state = intent_of(decided(suspended_job(remembering()), seeing(make_pod(0), make_pod(1))))
    seen = seeing(make_pod(0, PodPhase.FAILED, code=143), make_pod(1, PodPhase.SUCCEEDED))
    assert decided(suspended_job(state), seen).intent is None


def test_the_clock_stands_while_suspended_and_goes_on_afterwards() -> None:
    started = remembering(clock_from=NOON, clock_spent=5.0)
    asleep = intent_of(decided(suspended_job(started), seeing(make_pod(0), make_pod(1)), NOON + MINUTE))
    assert (asleep.clock_from, asleep.clock_spent) == (None, 65.0)
    again = intent_of(decided(make_job(state=asleep), now=NOON + 60 * MINUTE))
    assert again.waiting_from == NOON + 60 * MINUTE
    up = seeing(make_pod(0, attempt=1), make_pod(1, attempt=1))
    running = status_of(decided(make_job(state=again), up, NOON + 61 * MINUTE))
    assert (running.phase, running.running_at) == (Phase.RUNNING, NOON)
    assert (running.clock_from, running.clock_spent) == (NOON + 61 * MINUTE, 65.0)


def test_templates_and_groups_may_be_others_after_a_suspension() -> None:
    groups = {"ps": GroupState(size=1, template="old"), "worker": GroupState(size=2, template="old")}
    state = remembering(Phase.SUSPENDED, groups=groups)
    job = make_job(make_group(fingerprint="new"), make_group("chief", 1, fingerprint="first"), state=state)
    again = intent_of(decided(job))
    assert {name: memory.template for name, memory in again.groups.items()} == {"worker": "new", "chief": "first"}
    assert set(names(decided(make_job(*job.groups, state=again)), CreateService)) == {
        "demo-worker-0",
        "demo-worker-1",
        "demo-chief-0",
    }


def test_while_a_job_is_under_way_the_first_template_is_the_one_remembered() -> None:
    state = of_workers(size=2, template="old")
    job = make_job(make_group(fingerprint="new"), state=state)
    decision = decided(job, seeing(make_pod(0), make_pod(1)))
    assert status_of(decision).group("worker").template == "old"


def test_budgets_survive_a_suspension() -> None:
    state = of_workers(attempt=2, size=2, restarts={Cause.APP: 2})
    asleep = intent_of(decided(suspended_job(state), seeing(make_pod(0, attempt=2))))
    again = intent_of(decided(make_job(state=asleep)))
    assert again.group("worker").restarts == {Cause.APP: 2}


@pytest.mark.parametrize("phase", [Phase.TERMINATING, Phase.SUCCEED])
def test_a_job_that_has_ended_cannot_be_suspended(phase: Phase) -> None:
    world = World(make_job(make_group(size=1)), lambda pod: 0)
    world.settle_until(phase)
    world.suspend()
    world.settle()
    assert world.phases[-1] is Phase.SUCCEED
    assert Phase.SUSPENDED not in world.phases


def test_a_group_that_is_held_takes_on_another_size_while_it_rests() -> None:
    held = make_group(size=2, resize=Resize.HOLD, hold="they count each other", requests={Requester.SPEC: 2})
    world = World(make_job(held), lambda pod: 0 if pod.index == 0 else -1)
    world.settle()
    world.suspend()
    world.settle()
    world.resize("worker", spec=4)
    world.resume()
    world.settle()
    assert world.memory.group("worker").size == 4
    names, attempts = zip(*world.created[-4:], strict=True)
    assert set(names) == {f"demo-worker-{index}" for index in range(4)}, "all are told, and who had ended too"
    assert len(set(attempts)) == 1
