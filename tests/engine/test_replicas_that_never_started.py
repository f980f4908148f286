"""A replica that cannot start is the first cause of what follows from it, in the status and in its message."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.model.job import EndPolicy
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import ObservedPod, PodPhase, StuckContainer
from pliant.model.state import JobPhase, RestartCause
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import decided, intent_of, remembering, status_of

STARTING = remembering(JobPhase.CREATING, active_since=None, first_running_at=None)
LATER = NOON + timedelta(seconds=60)
NO_IMAGE = 'ImagePullBackOff: Back-off pulling image "trian:1"'
NO_CLAIM = 'Unschedulable: 0/1 nodes are available: persistentvolumeclaim "data" not found.'


def no_image(index: int = 0) -> ObservedPod:
    stuck = StuckContainer(container="trainer", reason="ImagePullBackOff", since=NOON)
    return make_pod(
        index, PodPhase.SCHEDULED, node="n0", problem=NO_IMAGE, start_problem_since=NOON, stuck_container=stuck
    )


def no_claim(index: int = 0) -> ObservedPod:
    return make_pod(index, PodPhase.PENDING, problem=NO_CLAIM, start_problem_since=NOON)


def gave_up(index: int = 1) -> ObservedPod:
    """A replica that waited for another one until it gave up."""
    return make_pod(index, PodPhase.FAILED, code=1, finished_at=NOON + timedelta(seconds=50))


def first_detail(text: Message) -> Message:
    return text.details[0]


@pytest.mark.parametrize(("pod", "reason"), [(no_image(), "ImagePullBackOff"), (no_claim(), "Unschedulable")])
def test_it_comes_before_the_failure_of_a_replica_that_waited_for_it(pod: ObservedPod, reason: str) -> None:
    state = intent_of(decided(make_job(state=STARTING), seeing(pod, gave_up()), LATER))
    assert state.root_cause is not None
    assert (state.root_cause.replica, state.root_cause.reason) == ("worker-0", reason)
    assert state.root_cause.cause is RestartCause.CREATION
    assert state.message.reason == MessageReason.REPLICAS_FAILED
    assert first_detail(state.message).parameters["problem"] == pod.start_problem
    assert state.message.details[1] == message(MessageReason.REPLICA_EXITED, replica="worker-1", code=1)
    assert [failure.replica for failure in state.failures] == ["worker-1"]


def test_it_is_the_cause_of_a_restart_of_a_replica_that_waited_for_it() -> None:
    job = make_job(make_group(restart=restarting()), state=STARTING)
    state = intent_of(decided(job, seeing(no_image(), gave_up()), LATER))
    assert state.phase is JobPhase.RESTARTING
    assert state.root_cause is not None
    assert state.root_cause.replica == "worker-0"


def test_it_is_not_the_cause_of_a_failure_before_it() -> None:
    early = replace(gave_up(), finished_at=NOON - timedelta(seconds=1))
    state = intent_of(decided(make_job(state=STARTING), seeing(no_image(), early), LATER))
    assert state.root_cause is not None
    assert state.root_cause.replica == "worker-1"
    assert first_detail(state.message).parameters["replica"] == "worker-1"


def test_it_is_not_the_cause_in_a_job_that_was_running() -> None:
    job = make_job(make_group(size=2), state=remembering(JobPhase.RUNNING))
    state = intent_of(decided(job, seeing(no_claim(), gave_up()), LATER))
    assert state.root_cause is not None
    assert state.root_cause.replica == "worker-1"
    assert len(state.message.details) == 1


@pytest.mark.parametrize("counts_from_start", [False, True])
def test_a_job_that_does_not_start_in_time_names_it(counts_from_start: bool) -> None:
    limit = timedelta(seconds=30)
    limits = {"time_limit": limit, "counts_time_from_start": True} if counts_from_start else {"start_limit": limit}
    waiting = status_of(decided(make_job(state=STARTING, **limits), seeing(no_claim(), make_pod(1)), NOON))
    state = intent_of(decided(make_job(state=waiting, **limits), seeing(no_claim(), make_pod(1)), LATER))
    assert state.outcome is not None
    assert state.outcome.phase is JobPhase.TIMEOUT
    assert state.root_cause is not None
    assert state.root_cause.message == NO_CLAIM
    assert first_detail(first_detail(state.message)).parameters["problem"] == NO_CLAIM


def test_of_several_problems_the_first_in_time_comes_first() -> None:
    later = replace(no_image(0), start_problem_since=NOON + timedelta(seconds=9))
    state = status_of(decided(make_job(state=STARTING), seeing(later, no_claim(1)), LATER))
    assert [detail.parameters["replica"] for detail in state.message.details] == ["worker-1", "worker-0"]


def test_message_and_first_cause_agree_on_failures_of_the_same_second() -> None:
    groups = (make_group("worker", 1), make_group("master", 1))
    ended = [make_pod(0, PodPhase.FAILED, group=each.name, code=1, finished_at=NOON) for each in groups]
    state = intent_of(decided(make_job(*groups, state=remembering(JobPhase.RUNNING)), seeing(*ended), LATER))
    assert state.root_cause is not None
    assert first_detail(state.message).parameters["replica"] == state.root_cause.replica == state.failures[0].replica


def test_of_failures_of_the_same_second_the_one_observed_first_comes_first() -> None:
    job = make_job(make_group(size=2, fail=EndPolicy.ALL), state=remembering(JobPhase.RUNNING))
    ended = [make_pod(index, PodPhase.FAILED, code=1, finished_at=NOON) for index in (0, 1)]
    before = status_of(decided(job, seeing(make_pod(0), ended[1]), LATER))
    state = intent_of(decided(replace(job, state=before), seeing(*ended), LATER))
    assert state.root_cause is not None
    assert state.root_cause.replica == "worker-1"
    assert first_detail(state.message).parameters["replica"] == "worker-1"
