"""Containers that cannot be created: patience, new pods, and the end of patience."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.model.actions import Decision
from pliant.model.job import RestartScope
from pliant.model.observed import ObservedPod, PodPhase, Stuck
from pliant.model.rules import Rules
from pliant.model.state import Cause, EngineState, Phase
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import decided, intent_of, of_workers, remembering, status_of, verdict_of

DURATION, PERIOD = timedelta(minutes=1), timedelta(minutes=3)
PATIENT = Rules(creating_duration=DURATION, creating_restart=PERIOD)
STRICT = replace(PATIENT, creating_fails=True)


def stuck_pod(since: timedelta = timedelta(0), attempt: int = 0) -> ObservedPod:
    stuck = Stuck(container="trainer", reason="ErrImagePull", since=NOON + since)
    return make_pod(
        1, PodPhase.SCHEDULED, attempt=attempt, node="n1", stuck=stuck, trouble="ErrImagePull: no such image"
    )


def asked(
    after: timedelta,
    rules: Rules = PATIENT,
    *,
    limit: int | None = None,
    state: EngineState | None = None,
    since: timedelta = timedelta(0),
) -> Decision:
    state = state or remembering(Phase.CREATING, clock_from=None)
    group = make_group(restart=restarting(RestartScope.ALL, limit) if limit is not None else None)
    pod = stuck_pod(since, state.group("worker").wanted_attempt(1))
    return decided(make_job(group, state=state), seeing(make_pod(0), pod, rules=rules), NOON + after)


def test_a_container_may_fail_to_be_created_for_a_while() -> None:
    decision = asked(timedelta(seconds=20))
    assert decision.intent is None
    assert decision.look_again == timedelta(seconds=40)
    assert status_of(decision).message == "worker-1: ErrImagePull: no such image"


def test_a_pod_stuck_for_too_long_is_made_anew_alone_and_charged() -> None:
    memory = intent_of(asked(DURATION, limit=3)).group("worker")
    assert memory.restarts == {Cause.CREATION: 1}
    assert memory.index_floors == {1: 1}, "nobody else restarts, whatever the scope"
    assert memory.stuck_from == NOON


def test_without_any_restart_policy_it_is_made_anew_all_the_same() -> None:
    assert intent_of(asked(DURATION)).phase is Phase.RESTARTING


RETRIED = of_workers(
    Phase.RESTARTING, attempt=2, index_floors={1: 2}, restarts={Cause.CREATION: 2}, stuck_from=NOON
)


@pytest.mark.parametrize(
    ("rules", "after", "limit", "phase"),
    [
        (PATIENT, timedelta(minutes=2, seconds=59), None, Phase.RESTARTING),
        (STRICT, timedelta(minutes=2, seconds=59), None, Phase.RESTARTING),
        (PATIENT, PERIOD, None, None),
        (STRICT, PERIOD, None, Phase.FAILED),
        (PATIENT, timedelta(minutes=2, seconds=59), 2, None),
        (STRICT, timedelta(minutes=2, seconds=59), 2, Phase.FAILED),
        (STRICT, timedelta(minutes=2, seconds=59), 3, Phase.RESTARTING),
    ],
)
def test_it_is_made_anew_while_time_and_budget_last(
    rules: Rules, after: timedelta, limit: int | None, phase: Phase | None
) -> None:
    decision = asked(after, rules, limit=limit, state=RETRIED, since=timedelta(minutes=1))
    if phase is None:
        assert decision.intent is None, "then it waits"
    elif phase is Phase.FAILED:
        assert verdict_of(decision).phase is phase
    else:
        assert intent_of(decision).phase is phase


def test_the_message_names_pod_node_container_and_reason() -> None:
    verdict = verdict_of(asked(PERIOD, STRICT, state=RETRIED, since=timedelta(minutes=1)))
    words = "demo-worker-1 on n1 cannot create container trainer: ErrImagePull: no such image"
    assert verdict.message == words


def test_the_time_of_trying_ends_when_all_are_up() -> None:
    job = make_job(make_group(), state=RETRIED)
    state = status_of(decided(job, seeing(make_pod(0), make_pod(1, attempt=2))))
    assert state.group("worker").stuck_from is None


def test_the_time_of_trying_begins_anew_after_a_suspension() -> None:
    asleep = of_workers(Phase.SUSPENDED, size=2, stuck_from=NOON - timedelta(days=1))
    state = intent_of(decided(make_job(make_group(), state=asleep)))
    assert state.group("worker").stuck_from is None


def test_a_pod_that_is_leaving_is_not_stuck() -> None:
    leaving = replace(stuck_pod(), is_leaving=True)
    job = make_job(make_group(), state=remembering(Phase.CREATING))
    state = intent_of(decided(job, seeing(make_pod(0), leaving, rules=STRICT), NOON + PERIOD))
    assert state.group("worker").restarts == {Cause.DISRUPTION: 1}
