"""Ends that somebody outside has ordered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.model.actions import DeletePod, DeleteService
from pliant.model.job import CleanPodPolicy, EndRequest
from pliant.model.messages import MessageReason, message
from pliant.model.observed import PodPhase
from pliant.model.state import FINAL_PHASES, JobOutcome, JobPhase
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import (
    RUNNING,
    actions_of,
    decided,
    event_of,
    intent_of,
    names,
    remembering,
    status_of,
    stored_by,
    verdict_of,
)
from tests.engine.world import World

ENDS = [JobPhase.FAILED, JobPhase.NODE_FAIL, JobPhase.PREEMPTED]
UP = seeing(make_pod(0), make_pod(1))
STOP = EndRequest(phase=JobPhase.PREEMPTED, message="somebody else is more important")


@pytest.mark.parametrize("phase", ENDS)
@pytest.mark.parametrize("clean", CleanPodPolicy)
def test_an_ordered_end_takes_all_pods_and_then_says_so(phase: JobPhase, clean: CleanPodPolicy) -> None:
    order = EndRequest(phase=phase, message="because I say so")
    world = World(make_job(clean=clean), lambda pod: -1)
    world.settle()
    world.edit(end_request=order)
    world.settle()
    assert world.phases[-2:] == [JobPhase.TERMINATING, phase]
    assert (world.pods, world.services) == ({}, {})
    assert world.memory.message == message(MessageReason.END_REQUESTED, message="because I say so")


@pytest.mark.parametrize(
    "phase", [JobPhase.PENDING, JobPhase.CREATING, JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.SUSPENDED]
)
def test_an_order_is_obeyed_in_any_phase_a_job_is_under_way_in(phase: JobPhase) -> None:
    job = make_job(state=remembering(phase), end_request=STOP, is_suspended=phase is JobPhase.SUSPENDED)
    decision = decided(job, UP)
    cause = message(MessageReason.END_REQUESTED, message=STOP.message)
    assert verdict_of(decision) == JobOutcome(phase=STOP.phase, message=cause, at=NOON, must_delete_all=True)
    assert (event_of(decision).reason, event_of(decision).is_warning) == ("Preempted", True)


def test_a_job_ordered_to_end_from_the_start_makes_nothing() -> None:
    world = World(make_job(end_request=STOP), lambda pod: 0)
    world.settle()
    assert (world.created, world.phases[-1]) == ([], JobPhase.PREEMPTED)


@pytest.mark.parametrize("phase", sorted(FINAL_PHASES))
def test_an_order_to_a_job_that_has_ended_comes_too_late(phase: JobPhase) -> None:
    state = remembering(phase, ended_at=NOON)
    decision = decided(make_job(state=state, end_request=STOP))
    assert (stored_by(decision), actions_of(decision)) == (None, ())


def test_the_first_verdict_stands() -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=message(MessageReason.TRAINING_COMPLETED), at=NOON)
    job = make_job(state=remembering(JobPhase.TERMINATING, outcome=verdict), end_request=STOP)
    assert status_of(decided(job)).phase is JobPhase.SUCCEED


@pytest.mark.parametrize("seen", ["completed", "failed", "restarted", "resized"])
def test_an_order_comes_before_everything_else(seen: str) -> None:
    end = {"completed": PodPhase.SUCCEEDED, "failed": PodPhase.FAILED, "restarted": PodPhase.FAILED}
    pods = [make_pod(i, end.get(seen, PodPhase.RUNNING), code=1 if seen != "completed" else None) for i in range(2)]
    group = make_group(restart=restarting() if seen == "restarted" else None)
    job = replace(make_job(group, state=RUNNING), end_request=STOP)
    assert verdict_of(decided(job, seeing(*pods))).phase is JobPhase.PREEMPTED


@pytest.mark.parametrize("phase", [JobPhase.TIMEOUT, JobPhase.PREEMPTED, JobPhase.NODE_FAIL])
def test_what_turns_up_after_an_end_that_keeps_nothing_goes(phase: JobPhase) -> None:
    job = make_job(state=remembering(phase, ended_at=NOON), clean=CleanPodPolicy.NONE)
    decision = decided(job, UP)
    assert names(decision, DeletePod) == names(decision, DeleteService) == ["demo-worker-0", "demo-worker-1"]


def test_an_ordered_failure_keeps_nothing_though_other_failures_may() -> None:
    failed = seeing(make_pod(0, PodPhase.FAILED, code=1), make_pod(1))
    kept = make_job(state=RUNNING, clean=CleanPodPolicy.NONE)
    assert intent_of(decided(kept, failed)).phase is JobPhase.FAILED
    ordered = replace(kept, end_request=EndRequest(phase=JobPhase.FAILED, message="enough"))
    state = intent_of(decided(ordered, failed))
    assert state.phase is JobPhase.TERMINATING
    later = replace(ordered, state=remembering(JobPhase.FAILED, ended_at=NOON, outcome=state.outcome))
    assert names(decided(later, failed), DeletePod) == ["demo-worker-0", "demo-worker-1"]
