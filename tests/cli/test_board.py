"""What a run knows of its jobs, and how it puts it into words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from pliant.cli.board import Board
from pliant.cli.logstreams import LogStreams
from pliant.cli.room import lack_text, lacks_of
from pliant.cli.style import Style
from pliant.cli.verdict import stuck_verdict, timeout_verdict, verdict
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
from pliant.model.job import Job, JobKey
from pliant.model.labels import ATTEMPT, INDEX, REPLICA
from pliant.model.state import Cause, EngineState, GroupCounts, GroupState, Phase
from tests.builders import NOON, make_group, make_job

PLAIN = Style()
TOOK = timedelta(seconds=3)


def board_with(job: Job, *pods: Pod) -> Board:
    board = Board()
    board.put_job(job)
    for pod in pods:
        board.put_pod(pod)
    return board


def in_phase(phase: Phase, message: str = "", groups: dict[str, GroupState] | None = None) -> EngineState:
    return EngineState(phase=phase, message=message, started_at=NOON, groups=groups or {})


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
            labels={REPLICA: "worker", INDEX: str(index), ATTEMPT: str(attempt)},
            owner_references=(OwnerReference(uid="job-uid", controller=True),),
        ),
        spec=PodSpec(restart_policy="Never", containers=(Container(name="trainer"),)),
        status=PodStatus(
            phase=phase,
            container_statuses=(status,),
            conditions=(condition,) if unschedulable else (),
        ),
    )


def silent_logs() -> LogStreams:
    class NoClient(KubeClient):
        def __init__(self) -> None:
            pass

    return LogStreams(NoClient(), asyncio.TaskGroup(), lambda pod, container, line: None)


def test_a_line_counts_who_runs_and_who_was_restarted() -> None:
    state = in_phase(Phase.RUNNING, "fine", {"worker": GroupState(restarts={Cause.APP: 2, Cause.NODE: 1})})
    [line] = board_with(make_job(state=state), pod(0)).lines()
    assert (line.phase, line.running, line.size, line.restarts, line.message) == ("Running", 1, 2, 3, "fine")


def test_pods_of_others_are_ignored() -> None:
    stranger = replace_owner(pod(0), "somebody else")
    [line] = board_with(make_job(), stranger).lines()
    assert line.running == 0


def replace_owner(one: Pod, uid: str) -> Pod:
    from msgspec.structs import replace as changed

    return changed(one, metadata=changed(one.metadata, owner_references=(OwnerReference(uid=uid),)))


def test_members_are_named_shortly_when_there_is_one_job_and_fully_when_there_are_more() -> None:
    board = board_with(make_job())
    assert board.speaker(pod(1)) == "worker-1"
    other = make_job()
    board.put_job(replace(other, key=JobKey("default", "other"), owner=replace(other.owner, uid="other")))
    assert board.speaker(pod(1)) == "demo-worker-1"


def test_a_run_is_over_when_every_job_is() -> None:
    board = board_with(make_job(state=in_phase(Phase.SUCCEED)))
    assert board.is_over()
    other = make_job()
    board.put_job(replace(other, key=JobKey("default", "other"), owner=replace(other.owner, uid="other")))
    assert not board.is_over()


def test_the_first_cause_is_the_first_failure_though_others_follow() -> None:
    job = make_job(state=in_phase(Phase.FAILED, "worker-1 failed"))
    board = board_with(job, pod(1, code=3), pod(0, code=1))
    cause = board.first_cause(job)
    assert cause is not None
    assert cause.title == "worker-1"


def test_a_failure_that_a_restart_mended_is_not_the_cause() -> None:
    memory = GroupState(attempt=1, index_floors={1: 1})
    job = make_job(state=in_phase(Phase.FAILED, groups={"worker": memory}))
    cause = board_with(job, pod(1, code=3), pod(0, code=1)).first_cause(job)
    assert cause is not None
    assert cause.title == "worker-0"


def test_a_restart_stays_a_restart_when_the_job_has_shrunk_below_it() -> None:
    job = make_job(state=in_phase(Phase.RUNNING))
    board = board_with(job, pod(1, code=137))
    board.put_job(replace(job, state=in_phase(Phase.RUNNING, groups={"worker": GroupState(index_floors={1: 1})})))
    small = replace(job, state=in_phase(Phase.SUCCEED, groups={"worker": GroupState()}))
    board.put_job(small)
    assert board.unmended(small) == []
    assert "although" not in verdict(board, silent_logs(), TOOK, PLAIN).text


def test_a_pod_that_is_gone_is_remembered_as_the_cause() -> None:
    job = make_job(state=in_phase(Phase.FAILED))
    board = board_with(job, pod(1, code=137))
    board.drop_pod(pod(1))
    text = verdict(board, silent_logs(), TOOK, PLAIN).text
    assert (
        "first cause: worker-1 was killed by SIGKILL (exit code 137) (pod demo-worker-1, container trainer)"
        in text
    )


def test_success_is_one_line() -> None:
    memory = GroupState(restarts={Cause.APP: 1})
    job = make_job(make_group(size=2), state=in_phase(Phase.SUCCEED, groups={"worker": memory}))
    said = verdict(board_with(job), silent_logs(), TOOK, PLAIN)
    assert said.code == 0
    assert said.text == "✔ demo succeeded in 3.0s (2 workers, 1 restart)"


def test_the_success_of_many_groups_stays_one_line() -> None:
    groups = [make_group(f"g{number}", size=2) for number in range(12)]
    board = board_with(make_job(*groups, state=in_phase(Phase.SUCCEED)))
    said = verdict(board, silent_logs(), TOOK, PLAIN)
    assert said.text == "✔ demo succeeded in 3.0s (24 members of 12 groups)"


def test_a_success_tells_whom_it_lost_and_not_whom_a_restart_brought_back() -> None:
    memory = GroupState(attempt=1, index_floors={1: 1}, restarts={Cause.APP: 1})
    job = make_job(make_group(size=3), state=in_phase(Phase.SUCCEED, groups={"worker": memory}))
    board = board_with(job, pod(1, phase="Failed", code=1), pod(2, phase="Failed", code=4))
    said = verdict(board, silent_logs(), TOOK, PLAIN)
    assert said.code == 0
    assert said.text == "✔ demo succeeded in 3.0s (3 workers, 1 restart), although worker-2 exited with code 4"


def test_one_failed_job_fails_the_run() -> None:
    board = board_with(make_job(state=in_phase(Phase.SUCCEED)))
    other = replace(make_job(state=in_phase(Phase.NODE_FAIL, "node lost")), key=JobKey("default", "other"))
    board.put_job(other)
    said = verdict(board, silent_logs(), TOOK, PLAIN)
    assert said.code == 4
    assert "✘ other was lost with its node after 3.0s: node lost" in said.text


def test_a_container_that_cannot_be_made_is_hopeless_and_one_without_room_is_not() -> None:
    wrong = ContainerWaiting(reason="CreateContainerError", message="no command")
    job = make_job(state=in_phase(Phase.CREATING))
    hopeless, waiting = board_with(
        job, pod(0, phase="Pending", waiting=wrong), pod(1, phase="Pending", unschedulable="0/1 nodes fit")
    ).stuck()
    assert hopeless.is_hopeless
    assert not waiting.is_hopeless
    assert "demo cannot start: worker-0: CreateContainerError: no command" in stuck_verdict([hopeless], PLAIN).text


def test_a_member_that_no_node_could_hold_is_hopeless_and_told_what_to_do() -> None:
    asked = {"spec": {"containers": [{"name": "trainer", "resources": {"requests": {"cpu": "64500m"}}}]}}
    job = make_job(replace(make_group(size=1), template=asked), state=in_phase(Phase.PENDING))
    board = board_with(job, pod(0, phase="Pending", unschedulable="0/1 nodes are available: 1 Insufficient cpu."))
    small, large = (node(cpu) for cpu in ("8", "100"))
    board.put_nodes([small, large])
    assert not any(stuck.is_hopeless for stuck in board.stuck())
    board.put_nodes([small])
    [hopeless] = board.stuck()
    assert hopeless.is_hopeless
    assert "it wants 64.5 cpu, and no node has more than 8; ask for less, or give nodes more with --node-cpu" in (
        hopeless.why
    )


def test_everything_that_is_missing_is_told_as_people_write_it() -> None:
    asked = {"limits": {"memory": "900Gi", "nvidia.com/gpu": 4, "cpu": 1}}
    template = {"spec": {"containers": [{"name": "x", "resources": asked}]}}
    machine = Node(
        metadata=ObjectMeta(name="node-0"),
        status=NodeStatus(allocatable={"cpu": "8", "memory": "24684100Ki", "pods": "10"}),
    )
    assert lack_text(lacks_of(template, [machine])) == (
        "it wants 900Gi memory, and no node has more than 23.5Gi; "
        "and 4 nvidia.com/gpu, and no node has more than 0; "
        "ask for less, or give nodes more with --node-memory, --node-gpu"
    )


def test_members_that_fit_alone_but_not_together_are_told_of_before_they_wait() -> None:
    asked = {"spec": {"containers": [{"name": "x", "resources": {"requests": {"cpu": "1500m"}}}]}}
    board = board_with(make_job(replace(make_group(size=3), template=asked)))
    board.put_nodes([node("2"), node("2")])
    [told] = board.shortages()
    assert told.startswith("demo: its members want 4.5 cpu together, and the nodes have 4: some have to wait")
    assert told.endswith("make room with --nodes or --node-cpu")
    board.put_nodes([node("2"), node("2"), node("2")])
    assert list(board.shortages()) == []
    board.put_nodes([node("1")])
    assert list(board.shortages()) == []  # no node holds even one: that is told otherwise


def node(cpu: str) -> Node:
    return Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": cpu, "pods": "10"}))


def test_a_timeout_names_what_was_still_waiting() -> None:
    job = make_job(state=in_phase(Phase.PENDING, "1 member of 2 not up yet"))
    board = board_with(job, pod(0), pod(1, phase="Pending", unschedulable="0/1 nodes are available"))
    said = timeout_verdict(board, silent_logs(), timedelta(seconds=5), PLAIN)
    assert said.code == 124
    assert "not done after 5.0s" in said.text
    assert "demo/worker: Pending, 1/2 running" in said.text
    assert "worker-1 waits: Unschedulable: 0/1 nodes are available" in said.text


@pytest.mark.parametrize(
    ("phase", "code", "words"),
    [
        (Phase.FAILED, 1, "demo failed after 3.0s"),
        (Phase.TIMEOUT, 3, "demo ran out of the time it was given after 3.0s"),
        (Phase.NODE_FAIL, 4, "demo was lost with its node after 3.0s"),
        (Phase.PREEMPTED, 5, "demo had to make room (preempted) after 3.0s"),
    ],
)
def test_every_bad_end_has_its_own_words_and_exit_code(phase: Phase, code: int, words: str) -> None:
    said = verdict(board_with(make_job(state=in_phase(phase, "why"))), silent_logs(), TOOK, PLAIN)
    assert said.code == code
    assert words in said.text


def test_a_loss_that_was_borne_is_not_the_cause_of_another_end() -> None:
    job = make_job(state=in_phase(Phase.TIMEOUT, "ran for 2 s"))
    said = verdict(board_with(job, pod(0, phase="Failed", code=1)), silent_logs(), TOOK, PLAIN)
    assert "first cause" not in said.text


def test_a_failure_outweighs_other_bad_ends() -> None:
    board = Board()
    for name, phase in (("a", Phase.PREEMPTED), ("b", Phase.FAILED), ("c", Phase.SUCCEED)):
        job = make_job(state=in_phase(phase, "why"))
        owner = replace(job.owner, uid=name)
        board.put_job(replace(job, key=JobKey("default", name), owner=owner))
    assert verdict(board, silent_logs(), TOOK, PLAIN).code == 1


def test_members_that_a_job_did_without_are_counted() -> None:
    state = in_phase(Phase.SUCCEED, "done")
    state = structs.replace(state, counts={"worker": GroupCounts(size=2, succeeded=1, failed=1)})
    said = verdict(board_with(make_job(state=state)), silent_logs(), TOOK, PLAIN)
    assert "(2 workers, 1 lost)" in said.text


def test_what_a_group_reports_is_shown_and_told_at_the_end() -> None:
    board = board_with(make_job(state=in_phase(Phase.SUCCEED, "done")), pod(0))
    assert board.hear(pod(0), "pliant: step=200 total=200 loss=0.15")
    assert not board.hear(pod(0), "hello")
    [line] = board.lines()
    assert line.progress is not None
    assert line.progress.share == 1.0
    assert "; step 200/200  loss 0.15)" in verdict(board, silent_logs(), TOOK, PLAIN).text


def test_a_job_that_is_deleted_meanwhile_ends_the_run() -> None:
    board = board_with(make_job(state=in_phase(Phase.RUNNING, "fine")))
    assert board.drop_job("someone-else") is None
    assert board.drop_job("job-uid") is not None
    assert board.is_over()
    said = verdict(board, silent_logs(), TOOK, PLAIN)
    assert said.code == 1
    assert "demo was deleted after 3.0s, before it had ended" in said.text
