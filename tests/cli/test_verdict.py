"""How a run says that it has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from pliant.cli.local.run_result import summarize_finished_run, summarize_stuck_run, summarize_timed_out_run
from pliant.cli.local.run_state import RunState
from pliant.kube.objects import ContainerWaiting
from pliant.model.job import JobKey
from pliant.model.state import GroupState, JobPhase, ReplicaCounts, RestartCause
from tests.builders import make_group, make_job
from tests.cli.test_board import PLAIN, TOOK, board_with, in_phase, note, pod, silent_logs


def test_a_restart_stays_a_restart_when_the_job_has_shrunk_below_it() -> None:
    job = make_job(state=in_phase(JobPhase.RUNNING))
    board = board_with(job, pod(1, code=137))
    note(
        board, replace(job, state=in_phase(JobPhase.RUNNING, groups={"worker": GroupState(index_min_attempts={1: 1})}))
    )
    small = replace(job, state=in_phase(JobPhase.SUCCEED, groups={"worker": GroupState()}))
    note(board, small)
    assert board.unrecovered_failures(small) == []
    assert "although" not in summarize_finished_run(board, silent_logs(), TOOK, PLAIN).text


def test_a_pod_that_is_gone_is_remembered_as_the_cause() -> None:
    job = make_job(state=in_phase(JobPhase.FAILED))
    board = board_with(job, pod(1, code=137))
    board.remove_pod(pod(1))
    text = summarize_finished_run(board, silent_logs(), TOOK, PLAIN).text
    assert "root cause: worker-1 was killed by SIGKILL (exit code 137) (pod demo-worker-1, container trainer)" in text


def test_success_is_one_line() -> None:
    memory = GroupState(restarts_by_cause={RestartCause.APP: 1})
    state = in_phase(JobPhase.SUCCEED, groups={"worker": memory}, restart_count=1)
    job = make_job(make_group(size=2), state=state)
    said = summarize_finished_run(board_with(job), silent_logs(), TOOK, PLAIN)
    assert said.exit_code == 0
    assert said.text == "✔ demo succeeded in 3.0s (2 workers, 1 restart)"


def test_a_restart_of_several_groups_counts_once() -> None:
    groups = {name: GroupState(restarts_by_cause={RestartCause.APP: 1}) for name in ("ps", "worker")}
    state = in_phase(JobPhase.SUCCEED, groups=groups, restart_count=1)
    job = make_job(make_group("ps", size=1), make_group(size=2), state=state)
    said = summarize_finished_run(board_with(job), silent_logs(), TOOK, PLAIN)
    assert said.text == "✔ demo succeeded in 3.0s (1 ps, 2 workers, 1 restart)"


def test_the_success_of_many_groups_stays_one_line() -> None:
    groups = [make_group(f"g{number}", size=2) for number in range(12)]
    board = board_with(make_job(*groups, state=in_phase(JobPhase.SUCCEED)))
    said = summarize_finished_run(board, silent_logs(), TOOK, PLAIN)
    assert said.text == "✔ demo succeeded in 3.0s (24 replicas in 12 groups)"


def test_a_success_tells_whom_it_lost_and_not_whom_a_restart_brought_back() -> None:
    memory = GroupState(attempt=1, index_min_attempts={1: 1}, restarts_by_cause={RestartCause.APP: 1})
    state = in_phase(JobPhase.SUCCEED, groups={"worker": memory}, restart_count=1)
    job = make_job(make_group(size=3), state=state)
    board = board_with(job, pod(1, phase="Failed", code=1), pod(2, phase="Failed", code=4))
    said = summarize_finished_run(board, silent_logs(), TOOK, PLAIN)
    assert said.exit_code == 0
    assert (
        said.text
        == "✔ demo succeeded in 3.0s (3 workers, 1 restart), with failed replicas: worker-2 exited with code 4"
    )


def test_one_failed_job_fails_the_run() -> None:
    board = board_with(make_job(state=in_phase(JobPhase.SUCCEED)))
    other = replace(make_job(state=in_phase(JobPhase.NODE_FAIL, "node lost")), key=JobKey("default", "other"))
    note(board, other)
    said = summarize_finished_run(board, silent_logs(), TOOK, PLAIN)
    assert said.exit_code == 4
    assert "✘ other failed because its node failed after 3.0s: node lost" in said.text


def test_a_container_that_cannot_be_made_is_hopeless_and_one_without_room_is_not() -> None:
    wrong = ContainerWaiting(reason="CreateContainerError", message="no command")
    job = make_job(state=in_phase(JobPhase.CREATING))
    hopeless, waiting = board_with(
        job, pod(0, phase="Pending", waiting=wrong), pod(1, phase="Pending", unschedulable="0/1 nodes fit")
    ).stuck_replicas()
    assert hopeless.is_permanent
    assert not waiting.is_permanent
    assert (
        "demo cannot start: worker-0: CreateContainerError: no command" in summarize_stuck_run([hopeless], PLAIN).text
    )


def test_a_timeout_names_what_was_still_waiting() -> None:
    job = make_job(state=in_phase(JobPhase.PENDING, "1 member of 2 not up yet"))
    board = board_with(job, pod(0), pod(1, phase="Pending", unschedulable="0/1 nodes are available"))
    said = summarize_timed_out_run(board, silent_logs(), timedelta(seconds=5), PLAIN)
    assert said.exit_code == 124
    assert "not finished after 5.0s" in said.text
    assert "demo/worker: Pending, 1/2 running" in said.text
    assert "worker-1 not started: Unschedulable: 0/1 nodes are available" in said.text


def test_members_that_wait_for_the_same_share_a_line() -> None:
    job = make_job(make_group(size=9), state=in_phase(JobPhase.PENDING))
    board = board_with(job, *(pod(index, phase="Pending", unschedulable="no room") for index in range(9)))
    said = summarize_timed_out_run(board, silent_logs(), timedelta(seconds=5), PLAIN)
    assert "demo: worker-0, worker-1, worker-2 and 6 more not started: Unschedulable: no room" in said.text
    assert len(said.text.splitlines()) == 3


@pytest.mark.parametrize(
    ("phase", "code", "words"),
    [
        (JobPhase.FAILED, 1, "demo failed after 3.0s"),
        (JobPhase.TIMEOUT, 3, "demo timed out after 3.0s"),
        (JobPhase.NODE_FAIL, 4, "demo failed because its node failed after 3.0s"),
        (JobPhase.PREEMPTED, 5, "demo was preempted after 3.0s"),
    ],
)
def test_every_bad_end_has_its_own_words_and_exit_code(phase: JobPhase, code: int, words: str) -> None:
    said = summarize_finished_run(board_with(make_job(state=in_phase(phase, "why"))), silent_logs(), TOOK, PLAIN)
    assert said.exit_code == code
    assert words in said.text


def test_a_loss_that_was_borne_is_not_the_cause_of_another_end() -> None:
    job = make_job(state=in_phase(JobPhase.TIMEOUT, "ran for 2 s"))
    said = summarize_finished_run(board_with(job, pod(0, phase="Failed", code=1)), silent_logs(), TOOK, PLAIN)
    assert "root cause" not in said.text


def test_a_failure_outweighs_other_bad_ends() -> None:
    board = RunState()
    for name, phase in (("a", JobPhase.PREEMPTED), ("b", JobPhase.FAILED), ("c", JobPhase.SUCCEED)):
        job = make_job(state=in_phase(phase, "why"))
        owner = replace(job.owner, uid=name)
        note(board, replace(job, key=JobKey("default", name), owner=owner))
    assert summarize_finished_run(board, silent_logs(), TOOK, PLAIN).exit_code == 1


def test_members_that_a_job_did_without_are_counted() -> None:
    state = in_phase(JobPhase.SUCCEED, "done")
    state = structs.replace(state, replica_counts={"worker": ReplicaCounts(size=2, succeeded=1, failed=1)})
    said = summarize_finished_run(board_with(make_job(state=state)), silent_logs(), TOOK, PLAIN)
    assert "(2 workers, 1 lost)" in said.text


def test_what_a_group_reports_is_shown_and_told_at_the_end() -> None:
    board = board_with(make_job(state=in_phase(JobPhase.SUCCEED, "done")), pod(0))
    assert board.record_progress_from_log(pod(0), "pliant: step=200 total=200 loss=0.15")
    assert not board.record_progress_from_log(pod(0), "hello")
    [line] = board.group_lines()
    assert line.progress is not None
    assert line.progress.fraction_done == 1.0
    assert "; step 200/200  loss 0.15)" in summarize_finished_run(board, silent_logs(), TOOK, PLAIN).text


def test_a_job_that_is_deleted_meanwhile_ends_the_run() -> None:
    board = board_with(make_job(state=in_phase(JobPhase.RUNNING, "fine")))
    assert board.mark_job_deleted("someone-else") is None
    assert board.mark_job_deleted("job-uid") is not None
    assert board.are_all_jobs_finished()
    said = summarize_finished_run(board, silent_logs(), TOOK, PLAIN)
    assert said.exit_code == 1
    assert "demo was deleted after 3.0s, before it finished" in said.text
