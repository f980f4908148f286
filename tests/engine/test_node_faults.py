"""Nodes that fail: when their pods are given up, how they are let go, and what becomes of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pliant.model.actions import CreatePod, DeletePod
from pliant.model.job import CleanPodPolicy, EndPolicy, RestartPolicy, RestartScope
from pliant.model.labels import excluded_nodes
from pliant.model.messages import NO_MESSAGE, MessageReason, message
from pliant.model.observed import NodeFault, Observed, ObservedPod, PodPhase
from pliant.model.state import GroupState, JobOutcome, JobPhase, RestartCause
from tests.builders import NOON, StoredJob, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import (
    RUNNING,
    actions_of,
    decided,
    event_of,
    intent_of,
    is_transition,
    names,
    of_workers,
    remembering,
    status_of,
    verdict_of,
    wait_of,
)

GRACE = timedelta(seconds=10)
DEAD = NodeFault(description="is not ready (NodeStatusUnknown)", since=NOON - GRACE)
SINCE_NOON = NodeFault(description="is not ready (NodeStatusUnknown)", since=NOON)
DEVICE = NodeFault(description="has a device fault (GPUUnhealthy)", since=NOON - GRACE, is_dead=False)
ON_NODE_FAIL = restarting(policy=RestartPolicy.ON_NODE_FAIL)


def on_node(index: int, fault: NodeFault | None, phase: PodPhase = PodPhase.RUNNING, **fields: Any) -> ObservedPod:
    return make_pod(index, phase, node_fault=fault, node="n1", **fields)


def test_a_node_has_some_grace_before_its_pods_are_given_up() -> None:
    job, seen = (make_job(make_group(restart=ON_NODE_FAIL), state=RUNNING), seeing(make_pod(0), on_node(1, SINCE_NOON)))
    waiting = decided(job, seen, NOON + timedelta(seconds=4))
    assert not is_transition(waiting)
    assert wait_of(waiting) == timedelta(seconds=6)
    assert intent_of(decided(job, seen, NOON + GRACE)).phase is JobPhase.RESTARTING


def test_a_node_that_comes_back_in_time_costs_nothing() -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=RUNNING)
    assert not is_transition(decided(job, seeing(make_pod(0), make_pod(1, node="n1")), NOON + GRACE))


def test_a_lost_member_is_restarted_elsewhere_at_the_cost_of_its_node() -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=RUNNING)
    state = intent_of(decided(job, seeing(make_pod(0), on_node(1, DEAD))))
    assert state.group("worker").restarts_by_cause == {RestartCause.NODE: 1}
    assert state.avoided_nodes == ("n1",)
    lost = message(MessageReason.REPLICA_LOST, replica="worker-1", node="n1", fault="is not ready (NodeStatusUnknown)")
    assert (state.message.reason, state.message.details) == (MessageReason.RESTARTING, (lost,))
    (pod,) = [
        action
        for action in actions_of(decided(replace(job, state=state), seeing(make_pod(0))))
        if isinstance(action, CreatePod)
    ]
    wishes = pod.manifest["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wishes[0]["preference"]["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]


def test_only_so_many_nodes_are_kept_off_and_the_latest_is_always_among_them() -> None:
    state = remembering(avoided_nodes=(*(f"old{i}" for i in range(7)), "n1"))
    job = make_job(make_group(restart=ON_NODE_FAIL), state=state)
    assert intent_of(decided(job, seeing(make_pod(0), on_node(1, DEAD)))).avoided_nodes == state.avoided_nodes
    elsewhere = replace(on_node(1, DEAD), node="n2")
    assert intent_of(decided(job, seeing(make_pod(0), elsewhere))).avoided_nodes == (*state.avoided_nodes[1:], "n2")


@pytest.mark.parametrize(
    ("policy", "members", "is_over"),
    [
        (EndPolicy.ANY, "RL", True),
        (EndPolicy.RANK0, "LR", True),
        (EndPolicy.RANK0, "RL", False),
        (EndPolicy.ALL, "LL", True),
        (EndPolicy.ALL, "RL", False),
        (EndPolicy.NONE, "RL", False),
    ],
)
@pytest.mark.parametrize("clean", CleanPodPolicy)
def test_a_loss_that_is_not_mended_is_put_to_the_vote(
    policy: EndPolicy, members: str, is_over: bool, clean: CleanPodPolicy
) -> None:
    job = make_job(make_group(fail=policy), clean=clean, state=RUNNING)
    decision = decided(job, seeing(*(on_node(i, DEAD if m == "L" else None) for i, m in enumerate(members))))
    assert is_transition(decision) is is_over
    if is_over:
        assert verdict_of(decision).phase is JobPhase.NODE_FAIL
        assert intent_of(decision).phase is JobPhase.TERMINATING, "pods go, whatever cleanPodPolicy says"


def test_with_the_budget_spent_a_lost_member_ends_the_job_as_a_node_failure() -> None:
    state = of_workers(attempt=1, restarts_by_cause={RestartCause.NODE: 1})
    job = make_job(make_group(restart=restarting(limit=1, policy=RestartPolicy.ON_NODE_FAIL)), state=state)
    verdict = verdict_of(decided(job, seeing(make_pod(0), on_node(1, DEAD))))
    assert verdict.phase is JobPhase.NODE_FAIL
    (cause,) = verdict.message.details
    assert (cause.reason, cause.parameters) == (MessageReason.RESTART_LIMIT_REACHED, {"group": "worker", "limit": 1})


def test_a_job_fails_by_its_node_only_if_one_who_decided_was_lost() -> None:
    servers = make_group("ps", 1, fail=EndPolicy.NONE)
    lost, failed = on_node(0, DEAD, group="ps"), make_pod(0, PodPhase.FAILED, code=3)
    job = make_job(servers, make_group(size=1), state=RUNNING)
    assert verdict_of(decided(job, seeing(lost, failed))).phase is JobPhase.FAILED
    first = make_job(make_group(fail=EndPolicy.RANK0), state=RUNNING)
    assert verdict_of(decided(first, seeing(failed, on_node(1, DEAD)))).phase is JobPhase.FAILED


@pytest.mark.parametrize("is_leaving", [False, True])
def test_a_pod_on_a_dead_node_is_let_go_at_once_though_it_is_leaving_already(is_leaving: bool) -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=of_workers(attempt=1, index_min_attempts={1: 1}))
    (deletion,) = actions_of(decided(job, seeing(make_pod(0), on_node(1, DEAD, is_terminating=is_leaving))))
    assert isinstance(deletion, DeletePod)
    assert deletion.is_forced


@pytest.mark.parametrize(
    ("fault", "is_leaving", "deleted"),
    [(DEVICE, False, 1), (DEVICE, True, 0), (SINCE_NOON, False, 1), (SINCE_NOON, True, 0), (None, True, 0)],
)
def test_whoever_can_leave_in_good_order_does(fault: NodeFault | None, is_leaving: bool, deleted: int) -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=of_workers(attempt=1, index_min_attempts={1: 1}))
    deletions = actions_of(decided(job, seeing(make_pod(0), on_node(1, fault, is_terminating=is_leaving))))
    assert len(deletions) == deleted
    assert not any(isinstance(action, DeletePod) and action.is_forced for action in deletions)


@pytest.mark.parametrize("phase", [JobPhase.TERMINATING, JobPhase.SUSPENDED, JobPhase.FAILED])
def test_who_leaves_with_the_whole_job_is_let_go_of_on_a_dead_node_too(phase: JobPhase) -> None:
    verdict = (
        JobOutcome(phase=JobPhase.FAILED, message=NO_MESSAGE, at=NOON) if phase is not JobPhase.SUSPENDED else None
    )
    job = make_job(state=remembering(phase, outcome=verdict), is_suspended=phase is JobPhase.SUSPENDED)
    stranded = on_node(1, DEAD, is_terminating=True)
    (deletion,) = [each for each in actions_of(decided(job, seeing(stranded))) if isinstance(each, DeletePod)]
    assert deletion.is_forced
    soon = decided(job, seeing(on_node(1, SINCE_NOON, is_terminating=True)))
    assert names(soon, DeletePod) == []
    assert wait_of(soon) == GRACE


def test_a_retired_member_on_a_dead_node_is_let_go_at_once() -> None:
    job = make_job(make_group(size=1), state=of_workers(applied_size=1))
    (deletion,) = [
        each for each in actions_of(decided(job, seeing(make_pod(0), on_node(1, DEAD)))) if isinstance(each, DeletePod)
    ]
    assert deletion.is_forced


def test_a_device_fault_loses_a_member_as_a_dead_node_does() -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=RUNNING)
    decision = decided(job, seeing(make_pod(0), on_node(1, DEVICE)))
    assert intent_of(decision).group("worker").restarts_by_cause == {RestartCause.NODE: 1}
    (lost,) = event_of(decision).message.details
    assert lost.parameters == {"replica": "worker-1", "node": "n1", "fault": "has a device fault (GPUUnhealthy)"}


def test_one_node_that_takes_several_members_along_makes_one_wide_restart() -> None:
    rule = restarting(RestartScope.ALL, policy=RestartPolicy.ALWAYS)
    job = make_job(make_group(size=3, restart=rule), state=RUNNING)
    state = intent_of(decided(job, seeing(*(on_node(i, DEAD) for i in range(3)))))
    assert state.group("worker") == GroupState(
        attempt=1,
        job_min_attempt=1,
        applied_size=3,
        restarts_by_cause={RestartCause.NODE: 1},
        last_restart_at=NOON,
        restart_streak=1,
        streak_start_attempt=1,
    )


@pytest.mark.parametrize("phase", [PodPhase.PENDING, PodPhase.SUCCEEDED])
def test_who_has_no_node_yet_or_needs_none_any_more_cannot_be_lost(phase: PodPhase) -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=RUNNING)
    assert not is_transition(decided(job, seeing(make_pod(0), on_node(1, DEAD, phase))))


def test_one_who_failed_on_a_faulty_node_is_charged_to_the_node_without_grace() -> None:
    job = make_job(make_group(restart=ON_NODE_FAIL), state=RUNNING)
    failed = on_node(1, SINCE_NOON, PodPhase.FAILED, code=9)
    state = intent_of(decided(job, seeing(make_pod(0), failed)))
    assert state.group("worker").restarts_by_cause == {RestartCause.NODE: 1}
    (exited,) = state.message.details
    assert exited.reason == MessageReason.REPLICA_EXITED
    assert (exited.parameters["code"], exited.parameters["node"]) == (9, "n1")


def test_members_lost_without_consequence_are_not_written_off() -> None:
    job = make_job(make_group(fail=EndPolicy.NONE), state=RUNNING)
    state = status_of(decided(job, seeing(make_pod(0), on_node(1, DEAD))))
    assert state.replica_counts["worker"].failed == 1
    assert state.group("worker").replica_outcomes == {}
    back = decided(replace(job, state=state), seeing(make_pod(0), make_pod(1)), NOON + timedelta(seconds=2))
    assert status_of(back).replica_counts["worker"].active == 2


UNUSABLE = {"worker": ("n1", "n2")}
OTHER_NODES = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("n1", "n2")]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def with_faulty_devices(*pods: ObservedPod) -> Observed:
    return replace(seeing(*pods), unusable_nodes=UNUSABLE)


def created_pod(job: StoredJob, observed: Observed) -> Mapping[str, Any]:
    actions = actions_of(decided(job, observed))
    return next(action.manifest for action in actions if isinstance(action, CreatePod))


def test_new_pods_exclude_nodes_with_a_faulty_device_before_anything_is_charged() -> None:
    pod = created_pod(make_job(make_group(size=1)), with_faulty_devices())
    [term] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term == {"matchFields": OTHER_NODES}
    assert excluded_nodes(pod["metadata"]["annotations"]) == ("n1", "n2")


def test_each_alternative_of_the_users_affinity_excludes_them() -> None:
    mine = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": mine}}, "podAffinity": {}}
    template = make_group().template
    group = replace(make_group(size=1), template={**template, "spec": {**template["spec"], "affinity": affinity}})
    after = created_pod(make_job(group), with_faulty_devices())["spec"]["affinity"]
    assert after["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {**each, "matchFields": OTHER_NODES} for each in mine
    ]
    assert "podAffinity" in after


def test_a_pod_that_the_user_bound_to_a_node_excludes_none() -> None:
    template = make_group().template
    bound = replace(make_group(size=1), template={**template, "spec": {**template["spec"], "nodeName": "n1"}})
    assert REQUIRED not in str(created_pod(make_job(bound), with_faulty_devices()))


@pytest.mark.parametrize(
    ("phase", "excluded", "deleted"),
    [
        (PodPhase.PENDING, ("n1", "n2"), []),
        (PodPhase.PENDING, ("n1",), ["demo-worker-0"]),
        (PodPhase.PENDING, (), ["demo-worker-0"]),
        (PodPhase.SCHEDULED, (), []),
        (PodPhase.RUNNING, (), []),
    ],
)
def test_a_pod_that_waits_is_recreated_when_it_must_exclude_other_nodes(
    phase: PodPhase, excluded: tuple[str, ...], deleted: list[str]
) -> None:
    job = make_job(make_group(size=1), state=of_workers(applied_size=1))
    waiting = make_pod(0, phase, excluded_nodes=excluded)
    assert names(decided(job, with_faulty_devices(waiting)), DeletePod) == deleted
    recovered = decided(job, seeing(waiting))
    assert names(recovered, DeletePod) == (["demo-worker-0"] if excluded else [])
