"""Who failed first and how, and where the time went."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.model.job import EndPolicy, EndRequest, RestartScope
from pliant.model.messages import MessageReason, message
from pliant.model.observed import NodeFault, PodExit, PodPhase
from pliant.model.state import GroupState, JobPhase, ReplicaFailure, RestartCause
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import decided, intent_of, remembering
from tests.engine.world import World

A_LITTLE = timedelta(seconds=3)


def test_of_several_failures_the_earliest_is_the_first_cause() -> None:
    late = make_pod(0, PodPhase.FAILED, code=1, finished_at=NOON)
    early = replace(
        make_pod(1, PodPhase.FAILED, node="n1", finished_at=NOON - A_LITTLE),
        exit=PodExit(code=139, container="trainer", reason="Error", message="b", last_log_lines="a\nb"),
    )
    decision = decided(make_job(state=remembering(JobPhase.RUNNING)), seeing(late, early))
    state = intent_of(decision)
    assert state.root_cause == ReplicaFailure(
        replica="worker-1",
        container="trainer",
        exit_code=139,
        signal="SIGSEGV",
        reason="Error",
        node="n1",
        at=NOON - A_LITTLE,
        message="a\nb",
    )
    assert [(each.replica, each.message) for each in state.failures] == [("worker-1", "b"), ("worker-0", "")]


def test_what_is_quoted_is_told_from_what_is_said() -> None:
    end = PodExit(code=3, message="no data")
    pods = seeing(replace(make_pod(0, PodPhase.FAILED, attempt=1), exit=end), make_pod(1))
    group = make_group(restart=restarting(limit=1))
    memory = GroupState(attempt=1, restarts_by_cause={RestartCause.APP: 1})
    decision = decided(make_job(group, state=remembering(JobPhase.RUNNING, groups={"worker": memory})), pods)
    exited = message(MessageReason.REPLICA_EXITED, replica="worker-0", code=3, message="no data")
    spent = message(MessageReason.RESTART_LIMIT_REACHED, [exited], group="worker", limit=1)
    assert intent_of(decision).message == message(MessageReason.REPLICAS_FAILED, [spent])


def test_a_member_whose_pod_is_gone_is_still_the_first_cause() -> None:
    job = make_job(make_group(size=2, fail=EndPolicy.ALL))
    world = World(job, lambda pod: 7 if pod.index == 1 else -1)
    world.settle()
    assert [each.replica for each in world.memory.failures] == ["worker-1"]
    assert not world.memory.root_cause
    del world.pods["demo-worker-1"]
    world.ending = lambda pod: 3
    world.settle()
    assert world.memory.phase is JobPhase.FAILED
    assert world.memory.root_cause is not None
    assert (world.memory.root_cause.replica, world.memory.root_cause.exit_code) == ("worker-1", 7)


def test_a_restart_tells_its_cause_until_the_job_succeeds() -> None:
    world = World(make_job(make_group(restart=restarting(RestartScope.ALL))), lambda pod: 5 - 6 * pod.attempt)
    world.settle()
    cause = world.memory.root_cause
    assert cause is not None
    assert (cause.exit_code, cause.attempt, world.memory.restart_count) == (5, 0, 1)
    world.ending = lambda pod: 0
    world.settle()
    assert world.memory.phase is JobPhase.SUCCEED
    assert not world.memory.root_cause
    assert world.memory.failures


def test_a_lost_node_is_named_as_the_cause() -> None:
    gone = NodeFault(description="is gone", since=NOON - timedelta(minutes=1))
    pods = seeing(make_pod(0, node="n0", node_fault=gone), make_pod(1, node="n1"))
    decision = decided(make_job(state=remembering(JobPhase.RUNNING)), pods)
    cause = intent_of(decision).root_cause
    assert cause is not None
    assert (cause.cause, cause.node, cause.reason, cause.at) == (RestartCause.NODE, "n0", "is gone", gone.since)


def test_an_end_that_was_ordered_has_no_first_cause() -> None:
    order = EndRequest(phase=JobPhase.FAILED, message="given up")
    decision = decided(
        make_job(state=remembering(JobPhase.RUNNING), end_request=order), seeing(make_pod(0), make_pod(1))
    )
    assert intent_of(decision).root_cause is None


def test_failures_kept_are_few_and_each_is_kept_once() -> None:
    world = World(make_job(make_group(size=1, restart=restarting(limit=30))), lambda pod: 1)
    world.settle(rounds=2000)
    attempts = [each.attempt for each in world.memory.failures]
    assert attempts == list(range(23, 31))


def test_the_time_in_each_phase_is_kept() -> None:
    world = World(make_job(), lambda pod: -1)
    world.settle()
    world.now += timedelta(minutes=5)
    world.suspend()
    world.settle()
    world.now += timedelta(minutes=10)
    world.resume()
    world.settle()
    world.ending = lambda pod: 0
    world.settle()
    state = world.memory
    assert state.ended_at is not None
    assert state.phase_seconds[JobPhase.RUNNING] >= 300
    assert state.phase_seconds[JobPhase.SUSPENDED] >= 600
    assert sum(state.phase_seconds.values()) == (state.ended_at - state.started_at).total_seconds()
