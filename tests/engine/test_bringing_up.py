"""How a job comes up, and what is told meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.model.actions import Act, CreatePod, CreateService
from pliant.model.messages import MessageReason, message
from pliant.model.observed import PodPhase
from pliant.model.state import JobPhase
from tests.builders import NOON, make_group, make_job, make_pod, seeing
from tests.engine.rulings import (
    RUNNING,
    actions_of,
    decided,
    names,
    not_starting,
    remembering,
    status_of,
    update_of,
    wait_of,
)
from tests.engine.world import World


def test_a_new_job_gets_its_services_its_pods_and_a_first_status() -> None:
    decision = decided(make_job(make_group("ps", 1), make_group("worker", 2)))
    members = ["demo-ps-0", "demo-worker-0", "demo-worker-1"]
    assert names(decision, CreateService) == members
    assert names(decision, CreatePod) == members
    assert status_of(decision).phase is JobPhase.PENDING
    assert status_of(decision).replica_counts["worker"].pending == 2


def test_pods_that_are_there_already_are_taken_over() -> None:
    decision = decided(make_job(), seeing(make_pod(0), make_pod(1)))
    assert actions_of(decision) == ()
    assert status_of(decision).phase is JobPhase.RUNNING


def test_only_what_is_missing_is_created() -> None:
    decision = decided(make_job(state=RUNNING), seeing(make_pod(0)))
    assert names(decision, CreatePod) == ["demo-worker-1"]
    assert names(decision, CreateService) == ["demo-worker-1"]


def test_a_deleted_job_is_left_to_its_owner_references() -> None:
    assert decided(make_job(is_deleting=True), seeing(make_pod(0))) == Act()


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ((PodPhase.PENDING, PodPhase.RUNNING), JobPhase.PENDING),
        ((PodPhase.SCHEDULED, PodPhase.RUNNING), JobPhase.CREATING),
        ((PodPhase.RUNNING, PodPhase.RUNNING), JobPhase.RUNNING),
        ((PodPhase.SUCCEEDED, PodPhase.RUNNING), JobPhase.RUNNING),
    ],
)
def test_the_slowest_member_makes_the_phase(phases: tuple[PodPhase, ...], phase: JobPhase) -> None:
    decision = decided(make_job(), seeing(*(make_pod(i, p) for i, p in enumerate(phases))))
    assert status_of(decision).phase is phase


def test_a_change_of_counts_waits_until_it_settles() -> None:
    state = remembering(JobPhase.PENDING, status_written_at=NOON)
    decision = decided(make_job(state=state), seeing(make_pod(0, PodPhase.SCHEDULED), make_pod(1, PodPhase.PENDING)))
    assert update_of(decision) is None
    assert wait_of(decision) == timedelta(seconds=1)


def test_the_message_tells_who_still_runs_when_others_have_ended() -> None:
    told = status_of(decided(make_job(), seeing(make_pod(0), make_pod(1, PodPhase.SUCCEEDED)))).message
    assert told == message(MessageReason.SOME_REPLICAS_FINISHED, running=1, total=2, finished=1)


def test_what_keeps_a_pod_from_starting_is_told_in_the_message() -> None:
    stuck = make_pod(0, PodPhase.SCHEDULED, problem="CreateContainerError: no command")
    told = status_of(decided(make_job(), seeing(stuck, make_pod(1)))).message
    assert told == not_starting("worker-0", "CreateContainerError: no command")


def test_a_container_that_its_node_starts_again_and_again_is_told_though_the_job_runs() -> None:
    looping = make_pod(0, problem="CrashLoopBackOff: back-off 5m0s restarting failed container")
    state = status_of(decided(make_job(state=RUNNING), seeing(looping, make_pod(1))))
    assert state.phase is JobPhase.RUNNING
    problem = "CrashLoopBackOff: back-off 5m0s restarting failed container"
    assert state.message == not_starting("worker-0", problem)


def test_a_clock_that_is_put_back_does_not_silence_a_job() -> None:
    ahead = remembering(JobPhase.CREATING, status_written_at=NOON + timedelta(hours=3))
    decision = decided(make_job(state=ahead), seeing(make_pod(0), make_pod(1, PodPhase.SCHEDULED)))
    assert status_of(decision).status_written_at == NOON


def test_a_refused_creation_is_told_in_the_message() -> None:
    refused = message(MessageReason.FAILED_CREATE, object="demo-worker-0", error="exceeded quota")
    seen = replace(seeing(), create_errors={"demo-worker-0": refused})
    assert status_of(decided(make_job(), seen)).message == message(MessageReason.DEGRADED, [refused])


def test_a_job_without_members_rests() -> None:
    world = World(make_job(make_group(size=0)), lambda pod: 0)
    world.settle()
    assert world.job.state is not None
    assert world.job.state.message.reason == MessageReason.NO_REPLICAS
