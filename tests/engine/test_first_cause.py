"""Who failed first and how, and where the time went."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.model.job import EndPolicy, Order, RestartScope
from pliant.model.observed import Exit, NodeFault, PodPhase
from pliant.model.state import Cause, Failure, GroupState, Phase
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import decided, remembering
from tests.engine.world import World

A_LITTLE = timedelta(seconds=3)


def test_of_several_failures_the_earliest_is_the_first_cause() -> None:
    late = make_pod(0, PodPhase.FAILED, code=1, finished_at=NOON)
    early = replace(
        make_pod(1, PodPhase.FAILED, node="n1", finished_at=NOON - A_LITTLE),
        exit=Exit(code=139, container="trainer", reason="Error", message="b", last_words="a\nb"),
    )
    decision = decided(make_job(state=remembering(Phase.RUNNING)), seeing(late, early))
    assert decision.intent is not None
    state = decision.intent.state
    assert state.first_cause == Failure(
        member="worker-1",
        container="trainer",
        code=139,
        signal="SIGSEGV",
        reason="Error",
        node="n1",
        at=NOON - A_LITTLE,
        message="a\nb",
    )
    assert [(each.member, each.message) for each in state.failures] == [("worker-1", "b"), ("worker-0", "")]


def test_what_is_quoted_is_told_from_what_is_said() -> None:
    end = Exit(code=3, message="no data")
    pods = seeing(replace(make_pod(0, PodPhase.FAILED, attempt=1), exit=end), make_pod(1))
    group = make_group(restart=restarting(limit=1))
    memory = GroupState(attempt=1, restarts={Cause.APP: 1})
    decision = decided(make_job(group, state=remembering(Phase.RUNNING, groups={"worker": memory})), pods)
    assert decision.intent is not None
    said = "worker-0 exited with code 3: no data; worker has spent its 1 restart"
    assert decision.intent.state.message == said


def test_a_member_whose_pod_is_gone_is_still_the_first_cause() -> None:
    job = make_job(make_group(size=2, fail=EndPolicy.ALL))
    world = World(job, lambda pod: 7 if pod.index == 1 else -1)
    world.settle()
    assert [each.member for each in world.memory.failures] == ["worker-1"]
    assert not world.memory.first_cause
    del world.pods["demo-worker-1"]
    world.ending = lambda pod: 3
    world.settle()
    assert world.memory.phase is Phase.FAILED
    assert world.memory.first_cause is not None
    assert (world.memory.first_cause.member, world.memory.first_cause.code) == ("worker-1", 7)


def test_a_restart_tells_its_cause_until_the_job_succeeds() -> None:
    world = World(make_job(make_group(restart=restarting(RestartScope.ALL))), lambda pod: 5 - 6 * pod.attempt)
    world.settle()
    cause = world.memory.first_cause
    assert cause is not None
    assert (cause.code, cause.attempt, world.memory.restarts) == (5, 0, 1)
    world.ending = lambda pod: 0
    world.settle()
    assert world.memory.phase is Phase.SUCCEED
    assert not world.memory.first_cause
    assert world.memory.failures


def test_a_lost_node_is_named_as_the_cause() -> None:
    gone = NodeFault(what="is gone", since=NOON - timedelta(minutes=1))
    pods = seeing(make_pod(0, node="n0", fault=gone), make_pod(1, node="n1"))
    decision = decided(make_job(state=remembering(Phase.RUNNING)), pods)
    assert decision.intent is not None
    cause = decision.intent.state.first_cause
    assert cause is not None
    assert (cause.cause, cause.node, cause.reason, cause.at) == (Cause.NODE, "n0", "is gone", gone.since)


def test_an_end_that_was_ordered_has_no_first_cause() -> None:
    order = Order(phase=Phase.FAILED, message="given up")
    decision = decided(make_job(state=remembering(Phase.RUNNING), order=order), seeing(make_pod(0), make_pod(1)))
    assert decision.intent is not None
    assert decision.intent.state.first_cause is None


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
    assert state.spent[Phase.RUNNING] >= 300
    assert state.spent[Phase.SUSPENDED] >= 600
    assert sum(state.spent.values()) == (state.ended_at - state.started_at).total_seconds()
