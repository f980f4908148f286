"""Members taken away through no fault of their own: replaced, and charged to nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.model.actions import CreatePod, DeletePod
from pliant.model.job import EndPolicy, RestartPolicy, RestartScope
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import JobPhase, ReplicaOutcome, RestartCause
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import (
    RUNNING,
    decided,
    event_of,
    intent_of,
    is_transition,
    names,
    of_workers,
    remembering,
    wait_of,
)

LEAVING = make_pod(1, is_terminating=True)
KILLED = make_pod(1, PodPhase.FAILED, code=143, is_terminating=True)
EVICTED = make_pod(1, PodPhase.FAILED, disruption="was evicted: The node was low on memory.")
WAYS = [
    (LEAVING, message(MessageReason.REPLICA_DELETED, replica="worker-1")),
    (KILLED, message(MessageReason.REPLICA_DELETED, replica="worker-1")),
    (EVICTED, message(MessageReason.REPLICA_DISRUPTED, replica="worker-1", disruption=EVICTED.disruption)),
]


@pytest.mark.parametrize(("pod", "cause"), WAYS)
@pytest.mark.parametrize("policy", [None, *RestartPolicy], ids=str)
def test_whatever_the_policy_a_member_taken_away_is_replaced_at_no_charge(
    policy: RestartPolicy | None, pod: ObservedPod, cause: Message
) -> None:
    rule = restarting(RestartScope.ALL, limit=0, policy=policy) if policy else None
    decision = decided(make_job(make_group(restart=rule), state=RUNNING), seeing(make_pod(0), pod))
    state = intent_of(decision)
    memory = state.group("worker")
    assert (memory.restarts_by_cause, memory.restarts_without_disruptions, state.restart_count) == (
        {RestartCause.DISRUPTION: 1},
        0,
        0,
    )
    assert memory.index_min_attempts == {1: 1}
    assert event_of(decision).reason == "Disrupted"
    assert event_of(decision).message == message(MessageReason.DISRUPTED_REPLACED, [cause])


@pytest.mark.parametrize("phase", [JobPhase.PENDING, JobPhase.CREATING, JobPhase.RUNNING, JobPhase.RESTARTING])
def test_the_phase_stays_as_it_is(phase: JobPhase) -> None:
    assert intent_of(decided(make_job(state=remembering(phase)), seeing(make_pod(0), EVICTED))).phase is phase


def test_an_evicted_pod_makes_room_first() -> None:
    job = make_job(state=of_workers(attempt=1, applied_size=2, index_min_attempts={1: 1}))
    decision = decided(job, seeing(make_pod(0), EVICTED))
    assert (names(decision, DeletePod), names(decision, CreatePod)) == (["demo-worker-1"], [])
    assert names(decided(job, seeing(make_pod(0))), CreatePod) == ["demo-worker-1"]


@pytest.mark.parametrize(("streak", "seconds"), [(1, 0), (2, 1), (3, 2), (4, 4), (20, 300)])
def test_members_taken_away_again_and_again_wait_longer_each_time(streak: int, seconds: int) -> None:
    state = of_workers(
        attempt=streak, applied_size=2, index_min_attempts={1: streak}, last_restart_at=NOON, restart_streak=streak
    )
    decision = decided(make_job(state=state), seeing(make_pod(0)))
    assert bool(names(decision, CreatePod)) is (seconds == 0)
    assert wait_of(decision) == (timedelta(seconds=seconds) if seconds else None)
    later = decided(make_job(state=state), seeing(make_pod(0)), NOON + timedelta(seconds=seconds))
    assert names(later, CreatePod) == ["demo-worker-1"]


def test_one_failure_among_disruptions_is_charged_alone() -> None:
    group = make_group(size=3, restart=restarting(limit=1))
    failed = make_pod(2, PodPhase.FAILED, code=1)
    state = intent_of(decided(make_job(group, state=RUNNING), seeing(make_pod(0), LEAVING, failed)))
    assert state.group("worker").restarts_by_cause == {RestartCause.APP: 1, RestartCause.DISRUPTION: 1}
    assert (state.phase, state.restart_count) == (JobPhase.RESTARTING, 1)


@pytest.mark.parametrize("outcome", ReplicaOutcome)
def test_taking_away_one_who_has_ended_changes_nothing(outcome: ReplicaOutcome) -> None:
    job = make_job(make_group(fail=EndPolicy.ALL), state=of_workers(applied_size=2, replica_outcomes={1: outcome}))
    gone = decided(job, seeing(make_pod(0), LEAVING))
    assert not is_transition(gone)
    assert names(gone, CreatePod) == []


@pytest.mark.parametrize(("is_by_node", "counted", "phase"), [(True, {}, None), (False, {}, JobPhase.FAILED)])
def test_even_where_disruptions_count_one_by_the_shutdown_of_the_node_does_not(
    is_by_node: bool, counted: dict[RestartCause, int], phase: JobPhase | None
) -> None:
    rule = replace(restarting(limit=0), counts_disruptions=True)
    job = make_job(make_group(size=1, restart=rule), state=of_workers(applied_size=1))
    gone = make_pod(0, PodPhase.FAILED, disruption="was terminated", is_disrupted_by_node=is_by_node)
    state = intent_of(decided(job, seeing(gone)))
    assert state.group("worker").restarts_by_cause == counted
    assert (state.outcome.phase if state.outcome else None) is phase
    assert state.group("worker").attempt == int(is_by_node)
