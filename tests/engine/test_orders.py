"""Ends that somebody outside has ordered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.model.actions import DeletePod, DeleteService
from pliant.model.job import CleanPolicy, Order
from pliant.model.observed import PodPhase
from pliant.model.state import FINAL, Phase, Verdict
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import RUNNING, decided, event_of, intent_of, names, remembering, verdict_of
from tests.engine.world import World

ENDS = [Phase.FAILED, Phase.NODE_FAIL, Phase.PREEMPTED]
UP = seeing(make_pod(0), make_pod(1))
STOP = Order(phase=Phase.PREEMPTED, message="somebody else is more important")


@pytest.mark.parametrize("phase", ENDS)
@pytest.mark.parametrize("clean", CleanPolicy)
def test_an_ordered_end_takes_all_pods_and_then_says_so(phase: Phase, clean: CleanPolicy) -> None:
    order = Order(phase=phase, message="because I say so")
    world = World(make_job(clean=clean), lambda pod: -1)
    world.settle()
    world.edit(order=order)
    world.settle()
    assert world.phases[-2:] == [Phase.TERMINATING, phase]
    assert (world.pods, world.services) == ({}, {})
    assert world.memory.message == "because I say so"


@pytest.mark.parametrize(
    "phase", [Phase.PENDING, Phase.CREATING, Phase.RUNNING, Phase.RESTARTING, Phase.SUSPENDED]
)
def test_an_order_is_obeyed_in_any_phase_a_job_is_under_way_in(phase: Phase) -> None:
    job = make_job(state=remembering(phase), order=STOP, is_suspended=phase is Phase.SUSPENDED)
    decision = decided(job, UP)
    assert verdict_of(decision) == Verdict(phase=STOP.phase, message=STOP.message, at=NOON, must_clear=True)
    assert (event_of(decision).reason, event_of(decision).is_warning) == ("Preempted", True)


def test_a_job_ordered_to_end_from_the_start_makes_nothing() -> None:
    world = World(make_job(order=STOP), lambda pod: 0)
    world.settle()
    assert (world.created, world.phases[-1]) == ([], Phase.PREEMPTED)


@pytest.mark.parametrize("phase", sorted(FINAL))
def test_an_order_to_a_job_that_has_ended_comes_too_late(phase: Phase) -> None:
    state = remembering(phase, ended_at=NOON)
    decision = decided(make_job(state=state, order=STOP))
    assert (decision.intent, decision.actions, dict(decision.statuses)) == (None, (), {})


def test_the_first_verdict_stands() -> None:
    verdict = Verdict(phase=Phase.SUCCEED, message="done", at=NOON)
    job = make_job(state=remembering(Phase.TERMINATING, verdict=verdict), order=STOP)
    (status,) = decided(job).statuses.values()
    assert status.state.phase is Phase.SUCCEED


@pytest.mark.parametrize("seen", ["completed", "failed", "restarted", "resized"])
def test_an_order_comes_before_everything_else(seen: str) -> None:
    end = {"completed": PodPhase.SUCCEEDED, "failed": PodPhase.FAILED, "restarted": PodPhase.FAILED}
    pods = [
        make_pod(i, end.get(seen, PodPhase.RUNNING), code=1 if seen != "completed" else None) for i in range(2)
    ]
    group = make_group(restart=restarting() if seen == "restarted" else None)
    job = replace(make_job(group, state=RUNNING), order=STOP)
    assert verdict_of(decided(job, seeing(*pods))).phase is Phase.PREEMPTED


@pytest.mark.parametrize("phase", [Phase.TIMEOUT, Phase.PREEMPTED, Phase.NODE_FAIL])
def test_what_turns_up_after_an_end_that_keeps_nothing_goes(phase: Phase) -> None:
    job = make_job(state=remembering(phase, ended_at=NOON), clean=CleanPolicy.NONE)
    decision = decided(job, UP)
    assert names(decision, DeletePod) == names(decision, DeleteService) == ["demo-worker-0", "demo-worker-1"]


def test_an_ordered_failure_keeps_nothing_though_other_failures_may() -> None:
    failed = seeing(make_pod(0, PodPhase.FAILED, code=1), make_pod(1))
    kept = make_job(state=RUNNING, clean=CleanPolicy.NONE)
    assert intent_of(decided(kept, failed)).phase is Phase.FAILED
    ordered = replace(kept, order=Order(phase=Phase.FAILED, message="enough"))
    state = intent_of(decided(ordered, failed))
    assert state.phase is Phase.TERMINATING
    later = replace(ordered, state=remembering(Phase.FAILED, ended_at=NOON, verdict=state.verdict))
    assert names(decided(later, failed), DeletePod) == ["demo-worker-0", "demo-worker-1"]
