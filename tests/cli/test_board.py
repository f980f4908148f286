"""What a run knows of its jobs, and how it puts it into words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from pliant.cli.explain.capacity import find_permanent_shortages, shortage_text
from pliant.cli.local.run_state import RunState
from pliant.cli.output.log_streams import LogStreams
from pliant.cli.output.style import TerminalStyle
from pliant.kube.client import KubeClient
from pliant.kube.objects import (
    Condition,
    Container,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
)
from pliant.model.english import render
from pliant.model.job import JobKey
from pliant.model.labels import ATTEMPT_LABEL, REPLICA_GROUP_LABEL, REPLICA_INDEX_LABEL
from pliant.model.state import EngineState, GroupState, JobPhase, RestartCause
from tests.builders import NOON, StoredJob, make_group, make_job, saying

PLAIN = TerminalStyle()
TOOK = timedelta(seconds=3)


def note(board: RunState, job: StoredJob) -> None:
    """What is asked for and what is stored arrive together."""
    board.update_job(job, job.state)


def board_with(job: StoredJob, *pods: Pod) -> RunState:
    board = RunState()
    note(board, job)
    for pod in pods:
        board.update_pod(pod)
    return board


def in_phase(
    phase: JobPhase, message: str = "", groups: dict[str, GroupState] | None = None, restart_count: int = 0
) -> EngineState:
    return EngineState(
        phase=phase, message=saying(message), started_at=NOON, groups=groups or {}, restart_count=restart_count
    )


def pod(
    index: int,
    *,
    attempt: int = 0,
    phase: str = "Running",
    code: int | None = None,
    waiting: ContainerWaiting | None = None,
    unschedulable: str = "",
) -> Pod:
    ended = ContainerTerminated(exit_code=code) if code is not None else None
    status = ContainerStatus(name="trainer", state=ContainerState(terminated=ended, waiting=waiting))
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=unschedulable)
    return Pod(
        metadata=ObjectMeta(
            name=f"demo-worker-{index}",
            uid=f"{index}/{attempt}",
            labels={REPLICA_GROUP_LABEL: "worker", REPLICA_INDEX_LABEL: str(index), ATTEMPT_LABEL: str(attempt)},
            owner_references=(OwnerReference(uid="job-uid", controller=True),),
        ),
        spec=PodSpec(restart_policy="Never", containers=(Container(name="trainer"),)),
        status=PodStatus(phase=phase, container_statuses=(status,), conditions=(condition,) if unschedulable else ()),
    )


def silent_logs() -> LogStreams:
    class NoClient(KubeClient):
        def __init__(self) -> None:
            pass

    return LogStreams(NoClient(), asyncio.TaskGroup(), lambda pod, container, line: None)


def test_a_line_counts_who_runs_and_who_was_restarted() -> None:
    state = in_phase(
        JobPhase.RUNNING, "fine", {"worker": GroupState(restarts_by_cause={RestartCause.APP: 2, RestartCause.NODE: 1})}
    )
    [line] = board_with(make_job(state=state), pod(0)).group_lines()
    assert (line.phase, line.running, line.size, line.restarts, render(line.message)) == ("Running", 1, 2, 3, "fine")


def test_pods_of_others_are_ignored() -> None:
    stranger = replace_owner(pod(0), "somebody else")
    [line] = board_with(make_job(), stranger).group_lines()
    assert line.running == 0


def replace_owner(one: Pod, uid: str) -> Pod:
    from msgspec.structs import replace as changed

    return changed(one, metadata=changed(one.metadata, owner_references=(OwnerReference(uid=uid),)))


def test_members_are_named_shortly_when_there_is_one_job_and_fully_when_there_are_more() -> None:
    board = board_with(make_job())
    assert board.log_prefix(pod(1)) == "worker-1"
    other = make_job()
    note(board, replace(other, key=JobKey("default", "other"), owner=replace(other.owner, uid="other")))
    assert board.log_prefix(pod(1)) == "demo-worker-1"


def test_a_run_is_over_when_every_job_is() -> None:
    board = board_with(make_job(state=in_phase(JobPhase.SUCCEED)))
    assert board.are_all_jobs_finished()
    other = make_job()
    note(board, replace(other, key=JobKey("default", "other"), owner=replace(other.owner, uid="other")))
    assert not board.are_all_jobs_finished()


def test_the_first_cause_is_the_first_failure_though_others_follow() -> None:
    job = make_job(state=in_phase(JobPhase.FAILED, "worker-1 failed"))
    board = board_with(job, pod(1, code=3), pod(0, code=1))
    cause = board.root_cause(job)
    assert cause is not None
    assert cause.replica_name == "worker-1"


def test_a_failure_that_a_restart_mended_is_not_the_cause() -> None:
    memory = GroupState(attempt=1, index_min_attempts={1: 1})
    job = make_job(state=in_phase(JobPhase.FAILED, groups={"worker": memory}))
    cause = board_with(job, pod(1, code=3), pod(0, code=1)).root_cause(job)
    assert cause is not None
    assert cause.replica_name == "worker-0"


def test_a_member_that_no_node_could_hold_is_hopeless_and_told_what_to_do() -> None:
    asked = {"spec": {"containers": [{"name": "trainer", "resources": {"requests": {"cpu": "64500m"}}}]}}
    job = make_job(replace(make_group(size=1), template=asked), state=in_phase(JobPhase.PENDING))
    board = board_with(job, pod(0, phase="Pending", unschedulable="0/1 nodes are available: 1 Insufficient cpu."))
    small, large = (node(cpu) for cpu in ("8", "100"))
    board.set_nodes([small, large])
    assert not any(stuck.is_permanent for stuck in board.stuck_replicas())
    board.set_nodes([small])
    [hopeless] = board.stuck_replicas()
    assert hopeless.is_permanent
    assert (
        "it requests 64.5 cpu, but no node has more than 8; reduce the requests, or enlarge the nodes with --node-cpu"
        in (hopeless.reason)
    )


def test_everything_that_is_missing_is_told_as_people_write_it() -> None:
    asked = {"limits": {"memory": "900Gi", "nvidia.com/gpu": 4, "cpu": 1}}
    template = {"spec": {"containers": [{"name": "x", "resources": asked}]}}
    machine = Node(
        metadata=ObjectMeta(name="node-0"),
        status=NodeStatus(allocatable={"cpu": "8", "memory": "24684100Ki", "pods": "10"}),
    )
    assert shortage_text(find_permanent_shortages(template, [machine])) == (
        "it requests 900Gi memory, but no node has more than 23.5Gi; "
        "and it requests 4 nvidia.com/gpu, but no node has more than 0; "
        "reduce the requests, or enlarge the nodes with --node-memory, --node-gpu"
    )


def test_members_that_fit_alone_but_not_together_are_told_of_before_they_wait() -> None:
    asked = {"spec": {"containers": [{"name": "x", "resources": {"requests": {"cpu": "1500m"}}}]}}
    board = board_with(make_job(replace(make_group(size=3), template=asked)))
    board.set_nodes([node("2"), node("2")])
    [told] = board.total_shortage_texts()
    assert told.startswith("demo: its replicas request 4.5 cpu in total, but the nodes have 4: some wait")
    assert told.endswith("add capacity with --nodes or --node-cpu")
    board.set_nodes([node("2"), node("2"), node("2")])
    assert list(board.total_shortage_texts()) == []
    board.set_nodes([node("1")])
    assert list(board.total_shortage_texts()) == []  # no node holds even one: that is told otherwise


def node(cpu: str) -> Node:
    return Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": cpu, "pods": "10"}))
