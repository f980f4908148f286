"""What starts a restart, how far it reaches and what it costs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from pliant.model.actions import CreatePod, Decision, DeletePod, EmitEvent
from pliant.model.job import RestartPolicy, RestartRule, RestartScope
from pliant.model.messages import MessageReason, message
from pliant.model.observed import NodeFault, PodPhase
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaOutcome, RestartCause
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import (
    RUNNING,
    actions_of,
    decided,
    exited,
    intent_of,
    is_transition,
    names,
    not_starting,
    of_workers,
    remembering,
    status_of,
    verdict_of,
)
from tests.engine.world import World


def failed_worker(
    rule: RestartRule, *, code: int = 1, state: EngineState = RUNNING, exit_codes: tuple[int, ...] = ()
) -> Decision:
    job = make_job(make_group("ps", 1), make_group(restart=rule), state=state, exit_codes=exit_codes)
    failed = make_pod(1, PodPhase.FAILED, code=code, attempt=state.group("worker").min_attempt(1))
    return decided(job, seeing(make_pod(0, group="ps"), make_pod(0), failed))


def test_a_restart_is_remembered_before_anything_is_deleted() -> None:
    decision = failed_worker(restarting(RestartScope.POD, limit=3))
    state = intent_of(decision)
    assert state.phase is JobPhase.RESTARTING
    assert state.group("worker") == GroupState(
        attempt=1,
        index_min_attempts={1: 1},
        applied_size=2,
        restarts_by_cause={RestartCause.APP: 1},
        last_restart_at=NOON,
        restart_streak=1,
        streak_start_attempt=1,
    )
    assert state.message == message(
        MessageReason.RESTARTING, [exited("worker-1")], group="worker", used=1, scope="Pod", limit=3
    )
    assert [type(action) for action in actions_of(decision)] == [EmitEvent]


@pytest.mark.parametrize(
    ("scope", "deleted"),
    [
        (RestartScope.POD, ["demo-worker-1"]),
        (RestartScope.REPLICA, ["demo-worker-0", "demo-worker-1"]),
        (RestartScope.ALL, ["demo-ps-0", "demo-worker-0", "demo-worker-1"]),
    ],
)
def test_the_scope_says_who_is_restarted(scope: RestartScope, deleted: list[str]) -> None:
    state = intent_of(failed_worker(restarting(scope)))
    job = make_job(make_group("ps", 1), make_group(restart=restarting(scope)), state=state)
    seen = seeing(make_pod(0, group="ps"), make_pod(0), make_pod(1, PodPhase.FAILED, code=1))
    assert names(decided(job, seen), DeletePod) == deleted


def test_nobody_returns_before_all_of_the_old_generation_have_left() -> None:
    state = intent_of(failed_worker(restarting(RestartScope.REPLICA)))
    job = make_job(make_group("ps", 1), make_group(restart=restarting(RestartScope.REPLICA)), state=state)
    leaving = make_pod(1, PodPhase.FAILED, code=1, is_terminating=True)
    waiting = decided(job, seeing(make_pod(0, group="ps"), leaving))
    assert names(waiting, CreatePod) == []
    gone = decided(job, seeing(make_pod(0, group="ps")))
    assert names(gone, CreatePod) == ["demo-worker-0", "demo-worker-1"]


def test_a_wide_restart_is_paid_for_by_every_group() -> None:
    state = intent_of(failed_worker(restarting(RestartScope.ALL)))
    assert {name: memory.attempt for name, memory in state.groups.items()} == {"ps": 1, "worker": 1}


def test_a_new_attempt_carries_its_number() -> None:
    state = intent_of(failed_worker(restarting(RestartScope.POD)))
    job = make_job(make_group("ps", 1), make_group(restart=restarting(RestartScope.POD)), state=state)
    decision = decided(job, seeing(make_pod(0, group="ps"), make_pod(0)))
    (pod,) = [action for action in actions_of(decision) if isinstance(action, CreatePod)]
    assert pod.manifest["metadata"]["labels"]["RestartCount"] == "1"


def test_beyond_the_limit_a_failure_fails_the_job() -> None:
    spent = remembering(
        JobPhase.RUNNING,
        groups={"worker": GroupState(attempt=2, index_min_attempts={1: 2}, restarts_by_cause={RestartCause.APP: 2})},
    )
    decision = failed_worker(restarting(limit=2), state=spent)
    verdict = verdict_of(decision)
    assert verdict.phase is JobPhase.FAILED
    (cause,) = verdict.message.details
    assert (cause.reason, cause.parameters["limit"]) == (MessageReason.RESTART_LIMIT_REACHED, 2)


NODE_DOWN = NodeFault(description="is not ready", since=NOON - timedelta(minutes=1))
GPU_BROKEN = NodeFault(description="has a device fault", since=NOON - timedelta(minutes=1), is_dead=False)
MISFORTUNES: dict[str, dict[str, Any]] = {
    "exit 1": {"phase": PodPhase.FAILED, "code": 1},
    "exit 137": {"phase": PodPhase.FAILED, "code": 137},
    "no exit": {"phase": PodPhase.FAILED},
    "node lost": {"node_fault": NODE_DOWN},
    "GPU fault": {"node_fault": GPU_BROKEN},
    "exit 1 on a lost node": {"phase": PodPhase.FAILED, "code": 1, "node_fault": NODE_DOWN},
    "exit 0": {"phase": PodPhase.SUCCEEDED},
    "exit 0 on a lost node": {"phase": PodPhase.SUCCEEDED, "node_fault": NODE_DOWN},
}
NODES = {"node lost", "GPU fault", "exit 1 on a lost node"}
FAILURES = {"exit 1", "exit 137", "no exit", "exit 1 on a lost node"}
RESTARTED: dict[RestartPolicy | None, set[str]] = {
    RestartPolicy.ALWAYS: FAILURES | NODES,
    RestartPolicy.ON_FAILURE: FAILURES,
    RestartPolicy.ON_NODE_FAIL: NODES,
    RestartPolicy.EXIT_CODE: {"exit 137"},
    RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE: NODES | {"exit 137"},
    RestartPolicy.NEVER: set(),
    None: set(),
}


@pytest.mark.parametrize("misfortune", MISFORTUNES)
@pytest.mark.parametrize("policy", RESTARTED, ids=str)
def test_the_restart_policy_says_what_starts_a_restart(policy: RestartPolicy | None, misfortune: str) -> None:
    rule = RestartRule(policy=policy, scope=RestartScope.POD)
    job = make_job(make_group(restart=rule), state=RUNNING, exit_codes=(137, 128))
    victim = make_pod(1, node="n1", **MISFORTUNES[misfortune])
    decision = decided(job, seeing(make_pod(0), victim))
    is_restarted = is_transition(decision) and intent_of(decision).phase is JobPhase.RESTARTING
    assert is_restarted is (misfortune in RESTARTED[policy])
    if is_restarted:
        cause = RestartCause.NODE if misfortune in NODES else RestartCause.APP
        assert intent_of(decision).group("worker").restarts_by_cause == {cause: 1}


@pytest.mark.parametrize("scope", RestartScope)
def test_a_limit_of_none_restarts_nothing(scope: RestartScope) -> None:
    assert intent_of(failed_worker(restarting(scope, limit=0))).phase is JobPhase.TERMINATING


def test_the_limit_counts_restarts_of_every_cause_but_disruptions() -> None:
    spent = {RestartCause.APP: 1, RestartCause.NODE: 1, RestartCause.CREATION: 1, RestartCause.DISRUPTION: 7}
    state = of_workers(attempt=10, restarts_by_cause=spent)
    assert intent_of(failed_worker(restarting(limit=4), state=state)).phase is JobPhase.RESTARTING
    assert verdict_of(failed_worker(restarting(limit=3), state=state)).phase is JobPhase.FAILED


def test_a_job_may_limit_the_restarts_of_all_its_groups_together() -> None:
    groups = [
        make_group(name, 1, restart=RestartRule(policy=RestartPolicy.ALWAYS, scope=RestartScope.POD))
        for name in ("a", "b")
    ]
    failures = seeing(*(make_pod(0, PodPhase.FAILED, group=name, code=1) for name in ("a", "b")))
    restarted = intent_of(decided(make_job(*groups, state=RUNNING, restart_limit=2), failures))
    assert (restarted.phase, restarted.restart_count) == (JobPhase.RESTARTING, 2)
    restarted = intent_of(decided(make_job(*groups, state=RUNNING, restart_limit=1), failures))
    assert (restarted.phase, restarted.restart_count) == (JobPhase.RESTARTING, 1)
    spent = replace(RUNNING, restart_count=1)
    verdict = verdict_of(decided(make_job(*groups, state=spent, restart_limit=1), failures))
    assert verdict.phase is JobPhase.FAILED
    spent_by_job = message(MessageReason.JOB_RESTART_LIMIT_REACHED, [exited("a-0")], limit=1)
    assert verdict.message.details[0] == spent_by_job


def test_the_limit_of_the_group_that_triggers_is_the_one_that_counts() -> None:
    """Others pay for a wide restart, though they have nothing left to pay with."""
    poor = {"ps": GroupState(attempt=1, restarts_by_cause={RestartCause.APP: 1})}
    servers = make_group("ps", 1, restart=restarting(limit=1))
    job = make_job(servers, make_group(restart=restarting(RestartScope.ALL, 5)), state=remembering(groups=poor))
    seen = seeing(make_pod(0, group="ps"), make_pod(0), make_pod(1, PodPhase.FAILED, code=1))
    state = intent_of(decided(job, seen))
    assert (
        state.group("ps").restarts_without_disruptions,
        state.group("worker").restarts_without_disruptions,
        state.restart_count,
    ) == (2, 1, 1)
    assert state.last_restarted_group == "worker"


def test_two_that_fail_together_with_one_restart_left_end_the_job() -> None:
    rule = restarting(RestartScope.POD, 1)
    failed = [make_pod(i, PodPhase.FAILED, code=1) for i in range(2)]
    state = intent_of(decided(make_job(make_group(restart=rule), state=RUNNING), seeing(*failed)))
    assert state.group("worker").index_min_attempts == {0: 1}
    later = decided(make_job(make_group(restart=rule), state=state), seeing(*failed))
    spent = message(MessageReason.RESTART_LIMIT_REACHED, [exited("worker-1")], group="worker", limit=1)
    assert verdict_of(later).message == message(MessageReason.REPLICAS_FAILED, [spent])


def test_the_widest_restart_takes_everybody_along() -> None:
    narrow, wide = make_group("ps", 1, restart=restarting()), make_group(restart=restarting(RestartScope.ALL))
    seen = seeing(make_pod(0, PodPhase.FAILED, group="ps", code=1), make_pod(0), make_pod(1, PodPhase.FAILED, code=1))
    state = intent_of(decided(make_job(narrow, wide, state=RUNNING), seen))
    assert {name: memory.attempt for name, memory in state.groups.items()} == {"ps": 1, "worker": 1}
    assert state.restart_count == 1


def test_without_a_restart_policy_nothing_is_restarted() -> None:
    assert intent_of(failed_worker(RestartRule())).phase is JobPhase.TERMINATING


def test_restarts_in_quick_succession_wait_longer_each_time() -> None:
    job = make_job(make_group(size=1, restart=restarting(limit=5)))
    world = World(job, lambda pod: 1)
    world.settle()
    assert world.job.state is not None
    assert world.job.state.group("worker").restart_streak == 5
    assert world.now - NOON >= timedelta(seconds=1 + 2 + 4 + 8)


def test_the_wait_is_forgotten_after_a_calm_while() -> None:
    long_ago = NOON - timedelta(minutes=11)
    tired = GroupState(
        attempt=9,
        index_min_attempts={1: 9},
        restarts_by_cause={RestartCause.APP: 9},
        last_restart_at=long_ago,
        restart_streak=9,
    )
    state = intent_of(failed_worker(restarting(), state=remembering(JobPhase.RUNNING, groups={"worker": tired})))
    assert state.group("worker").restart_streak == 1


def test_one_wide_restart_covers_all_failures_of_the_moment() -> None:
    group = make_group(restart=restarting(RestartScope.REPLICA))
    failed = [make_pod(i, PodPhase.FAILED, code=1) for i in range(2)]
    state = intent_of(decided(make_job(group, state=RUNNING), seeing(*failed)))
    assert state.group("worker").restarts_by_cause == {RestartCause.APP: 1}


def test_an_ended_member_whose_pod_is_lost_does_not_train_again() -> None:
    state = remembering(JobPhase.RUNNING, groups={"worker": GroupState(replica_outcomes={0: ReplicaOutcome.SUCCEEDED})})
    decision = decided(make_job(state=state), seeing(make_pod(1)))
    assert names(decision, CreatePod) == []


def test_a_memory_that_was_wiped_charges_one_failure_once() -> None:
    job = make_job(make_group(restart=restarting(RestartScope.POD)))
    failed = make_pod(0, PodPhase.FAILED, code=1, attempt=3)
    state = intent_of(decided(job, seeing(failed, make_pod(1, attempt=1))))
    assert state.group("worker").restarts_without_disruptions == 1
    assert state.group("worker").min_attempt(0) == 4
    assert state.group("worker").min_attempt(1) == 0


def test_a_restart_is_told_again_once_another_trouble_is_over() -> None:
    other = not_starting("worker-1", "Unschedulable: full")
    state = replace(intent_of(failed_worker(restarting(RestartScope.POD))), message=other)
    job = make_job(make_group("ps", 1), make_group(restart=restarting(RestartScope.POD)), state=state)
    pods = (make_pod(0, group="ps"), make_pod(0), make_pod(1, PodPhase.SCHEDULED, attempt=1))
    told = status_of(decided(job, seeing(*pods), NOON + timedelta(seconds=9))).message
    assert (told.reason, told.details) == (MessageReason.RESTARTING, (exited("worker-1"),))
