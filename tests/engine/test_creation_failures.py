"""Containers that cannot be created: patience, new pods, and the end of patience."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.model.actions import Decision
from pliant.model.job import RestartScope
from pliant.model.messages import MessageReason, message
from pliant.model.observed import ObservedPod, PodPhase, StuckContainer
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState, JobPhase, RestartCause
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import (
    decided,
    intent_of,
    is_transition,
    not_starting,
    of_workers,
    remembering,
    status_of,
    verdict_of,
    wait_of,
)

DURATION, PERIOD = timedelta(minutes=1), timedelta(minutes=3)
PATIENT = OperatorConfig(container_creation_timeout=DURATION, creation_retry_window=PERIOD)
STRICT = replace(PATIENT, should_fail_on_creation_timeout=True)


def stuck_pod(since: timedelta = timedelta(0), attempt: int = 0) -> ObservedPod:
    stuck = StuckContainer(container="trainer", reason="ErrImagePull", since=NOON + since)
    return make_pod(
        1, PodPhase.SCHEDULED, attempt=attempt, node="n1", stuck_container=stuck, problem="ErrImagePull: no such image"
    )


def asked(
    after: timedelta,
    rules: OperatorConfig = PATIENT,
    *,
    limit: int | None = None,
    state: EngineState | None = None,
    since: timedelta = timedelta(0),
) -> Decision:
    state = state or remembering(JobPhase.CREATING, active_since=None)
    group = make_group(restart=restarting(RestartScope.ALL, limit) if limit is not None else None)
    pod = stuck_pod(since, state.group("worker").min_attempt(1))
    return decided(make_job(group, state=state), seeing(make_pod(0), pod, rules=rules), NOON + after)


def test_a_container_may_fail_to_be_created_for_a_while() -> None:
    decision = asked(timedelta(seconds=20))
    assert not is_transition(decision)
    assert wait_of(decision) == timedelta(seconds=40)
    assert status_of(decision).message == not_starting("worker-1", "ErrImagePull: no such image")


def test_a_pod_stuck_for_too_long_is_made_anew_alone_and_charged() -> None:
    memory = intent_of(asked(DURATION, limit=3)).group("worker")
    assert memory.restarts_by_cause == {RestartCause.CREATION: 1}
    assert memory.index_min_attempts == {1: 1}, "nobody else restarts, whatever the scope"
    assert memory.creation_stuck_since == NOON


def test_without_any_restart_policy_it_is_made_anew_all_the_same() -> None:
    assert intent_of(asked(DURATION)).phase is JobPhase.RESTARTING


RETRIED = of_workers(
    JobPhase.RESTARTING,
    attempt=2,
    index_min_attempts={1: 2},
    restarts_by_cause={RestartCause.CREATION: 2},
    creation_stuck_since=NOON,
)


@pytest.mark.parametrize(
    ("rules", "after", "limit", "phase"),
    [
        (PATIENT, timedelta(minutes=2, seconds=59), None, JobPhase.RESTARTING),
        (STRICT, timedelta(minutes=2, seconds=59), None, JobPhase.RESTARTING),
        (PATIENT, PERIOD, None, None),
        (STRICT, PERIOD, None, JobPhase.FAILED),
        (PATIENT, timedelta(minutes=2, seconds=59), 2, None),
        (STRICT, timedelta(minutes=2, seconds=59), 2, JobPhase.FAILED),
        (STRICT, timedelta(minutes=2, seconds=59), 3, JobPhase.RESTARTING),
    ],
)
def test_it_is_made_anew_while_time_and_budget_last(
    rules: OperatorConfig, after: timedelta, limit: int | None, phase: JobPhase | None
) -> None:
    decision = asked(after, rules, limit=limit, state=RETRIED, since=timedelta(minutes=1))
    if phase is None:
        assert not is_transition(decision), "then it waits"
    elif phase is JobPhase.FAILED:
        assert verdict_of(decision).phase is phase
    else:
        assert intent_of(decision).phase is phase


def test_the_message_names_pod_node_container_and_reason() -> None:
    verdict = verdict_of(asked(PERIOD, STRICT, state=RETRIED, since=timedelta(minutes=1)))
    assert verdict.message.reason == MessageReason.REPLICAS_FAILED
    assert verdict.message.details == (
        message(
            MessageReason.CONTAINER_NOT_CREATED,
            pod="demo-worker-1",
            node="n1",
            container="trainer",
            problem="ErrImagePull: no such image",
        ),
    )


def test_the_time_of_trying_ends_when_all_are_up() -> None:
    job = make_job(make_group(), state=RETRIED)
    state = status_of(decided(job, seeing(make_pod(0), make_pod(1, attempt=2))))
    assert state.group("worker").creation_stuck_since is None


def test_the_time_of_trying_begins_anew_after_a_suspension() -> None:
    asleep = of_workers(JobPhase.SUSPENDED, applied_size=2, creation_stuck_since=NOON - timedelta(days=1))
    state = intent_of(decided(make_job(make_group(), state=asleep)))
    assert state.group("worker").creation_stuck_since is None


def test_a_pod_that_is_leaving_is_not_stuck() -> None:
    leaving = replace(stuck_pod(), is_terminating=True)
    job = make_job(make_group(), state=remembering(JobPhase.CREATING))
    state = intent_of(decided(job, seeing(make_pod(0), leaving, rules=STRICT), NOON + PERIOD))
    assert state.group("worker").restarts_by_cause == {RestartCause.DISRUPTION: 1}
