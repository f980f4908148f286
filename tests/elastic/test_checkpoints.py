"""Checkpoints before a replica leaves: requests of the operator, of the preStop hook and by SIGTERM."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from pliant import elastic
from tests.elastic.conftest import close_job
from tests.elastic.operator_server import OperatorServer, serve_operator
from tests.elastic.programs import read_line, start_program

TRAIN = """
import time
job = elastic.join(checkpoints=True)
print("training", flush=True)
for step in range(10_000):
    time.sleep(0.005)
    if job.should_checkpoint():
        print("saved", job.is_leaving, flush=True)
        job.acknowledge()
"""
LEAVE = TRAIN.replace("job.acknowledge()", "job.leave()")


def wait_until(is_true: Callable[[], bool], timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_leaving(job: elastic.Job) -> bool:
    """Return `job.is_leaving`, which mypy expects to stay as it is."""
    return job.is_leaving


def test_a_program_that_never_asks_announces_nothing(operator: OperatorServer, job: elastic.Job) -> None:
    job.report(step=1)
    operator.wait_for("reports")
    assert (operator.acknowledged, operator.polls) == ([], [])


def test_the_first_question_announces_that_requests_are_acknowledged(
    operator: OperatorServer, job: elastic.Job, run_directory: Path
) -> None:
    (run_directory / "checkpoint-done").touch()  # of an earlier container of the pod
    assert not job.should_checkpoint()
    operator.wait_for("acknowledged")
    assert operator.acknowledged == [0]
    assert [path.name for path in run_directory.iterdir()] == ["acknowledges"]


def test_a_request_of_the_operator_arrives_at_once_and_is_acknowledged_once(
    operator: OperatorServer, job: elastic.Job, run_directory: Path
) -> None:
    assert not job.should_checkpoint()
    operator.wait_for("polls", 2)
    start = time.monotonic()
    operator.request_checkpoint(3, rank=None, generation=2)
    wait_until(job.should_checkpoint)
    assert time.monotonic() - start < 2.0  # a machine that runs other things, too
    assert job.is_leaving
    assert job.deadline is not None
    assert 10.0 < job.deadline - time.monotonic() <= 30.0
    assert job.acknowledge()
    assert operator.acknowledged[-1] == 3
    assert (run_directory / "checkpoint-done").exists()
    operator.publish(generation=3)
    job.wait_membership(2, timeout=20)
    assert not job.should_checkpoint()  # although the operator no longer sends the request
    assert job.is_leaving
    assert job.deadline is not None
    (run_directory / "checkpoint-requested").touch()  # by the hook, when the pod is deleted
    time.sleep(elastic.FILE_CHECK_INTERVAL)
    assert not job.should_checkpoint()


def test_the_deadline_is_on_the_clock_of_the_operator(operator: OperatorServer, job: elastic.Job) -> None:
    operator.clock_offset = timedelta(hours=-3)
    operator.request_checkpoint(1, seconds=20.0)
    job.should_checkpoint()
    wait_until(lambda: job.deadline is not None)
    assert job.deadline is not None
    assert 0.0 < job.deadline - time.monotonic() <= 20.0


def test_a_replica_that_still_runs_after_the_deadline_is_asked_again(
    operator: OperatorServer, job: elastic.Job, run_directory: Path
) -> None:
    operator.request_checkpoint(1, seconds=2.0)  # for example before a resize that was taken back
    wait_until(job.should_checkpoint)
    job.acknowledge()
    assert is_leaving(job)
    wait_until(lambda: not job.should_checkpoint() and not (run_directory / "checkpoint-done").exists())
    assert not is_leaving(job)
    (run_directory / "checkpoint-requested").touch()
    wait_until(job.should_checkpoint)


def test_a_replica_on_a_node_that_is_drained_saves_its_state_and_stays(
    operator: OperatorServer, job: elastic.Job, run_directory: Path
) -> None:
    operator.request_checkpoint(1, reason=elastic.NODE_DRAINING)
    wait_until(job.should_checkpoint)
    assert not is_leaving(job)
    assert job.acknowledge()
    assert not job.should_checkpoint()
    assert not (run_directory / "checkpoint-done").exists()
    (run_directory / "checkpoint-requested").touch()  # by the hook, when the pod is evicted
    wait_until(job.should_checkpoint)
    assert is_leaving(job)
    job.acknowledge()
    assert (run_directory / "checkpoint-done").exists()


def test_a_request_during_a_save_is_a_request_of_its_own(operator: OperatorServer, job: elastic.Job) -> None:
    operator.request_checkpoint(1)
    wait_until(job.should_checkpoint)
    operator.request_checkpoint(2)
    wait_until(lambda: job._watch.request is not None and job._watch.request.id == 2)
    assert job.acknowledge()
    assert operator.acknowledged[-1] == 1
    assert job.should_checkpoint()
    assert job.acknowledge()
    assert operator.acknowledged[-1] == 2


def test_the_response_to_a_report_carries_a_request(operator: OperatorServer, job: elastic.Job) -> None:
    assert not job.should_checkpoint()
    operator.wait_for("polls", 2)
    operator.checkpoint = {"id": 5, "reason": "Suspended"}  # without notifying those who wait
    job.report(step=1)
    wait_until(job.should_checkpoint)
    assert job.acknowledge()


@pytest.mark.parametrize("answer", [(503, b"not the leader"), (500, b""), (202, b"\xff{"), (302, b"")])
def test_an_acknowledgement_is_repeated_until_it_is_stored(
    operator: OperatorServer, job: elastic.Job, answer: tuple[int, bytes]
) -> None:
    operator.request_checkpoint(3)
    wait_until(job.should_checkpoint)
    operator.wait_for("acknowledged")
    operator.answer = answer
    job._departure._operator.acknowledge(3, time.monotonic() + 0.05)  # type: ignore[union-attr]
    assert operator.acknowledged == [0]
    operator.answer = None
    operator.wait_for("acknowledged", 2)
    assert operator.acknowledged == [0, 3]


def test_an_operator_that_is_gone_delays_a_replica_at_most_until_the_deadline(
    operator: OperatorServer, job: elastic.Job
) -> None:
    operator.request_checkpoint(1, seconds=1.5)  # on a clock that has no fractions of seconds
    wait_until(job.should_checkpoint)
    operator.answer = (503, b"")
    start = time.monotonic()
    assert not job.acknowledge()
    assert time.monotonic() - start < 10.0
    assert not job.should_checkpoint()


def test_a_rejected_acknowledgement_is_not_waited_for(operator: OperatorServer, job: elastic.Job) -> None:
    operator.request_checkpoint(1)
    wait_until(job.should_checkpoint)
    operator.answer = (401, b"send the token")
    start = time.monotonic()
    assert not job.acknowledge()
    assert time.monotonic() - start < 10.0


def test_without_an_operator_the_file_of_the_hook_is_enough(job: elastic.Job, run_directory: Path) -> None:
    assert not job.should_checkpoint()
    (run_directory / "checkpoint-requested").touch()
    wait_until(job.should_checkpoint)
    assert job.is_leaving
    assert not job.acknowledge()  # no operator has stored it
    assert (run_directory / "checkpoint-done").exists()
    assert not job.should_checkpoint()


def test_a_question_reads_the_file_system_at_most_ten_times_a_second(
    job: elastic.Job, run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    monkeypatch.setattr("os.path.exists", lambda path: looks.append(path))
    start = time.monotonic()
    for _ in range(2000):
        job.should_checkpoint()
    assert len(looks) <= 1 + (time.monotonic() - start) / elastic.FILE_CHECK_INTERVAL


@pytest.mark.parametrize("script", [TRAIN, LEAVE], ids=["acknowledges", "leaves"])
def test_a_program_saves_its_state_after_sigterm_and_ends_like_one_that_was_terminated(script: str) -> None:
    process = start_program(script)
    assert read_line(process) == "training"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("saved True\n", "")
    assert process.returncode == 143


def test_a_handler_that_was_installed_before_is_called_and_decides_how_the_program_ends() -> None:
    script = f"""
import signal, sys
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append("handled"))
{TRAIN}
        print(*ended)
        sys.exit(5)
"""
    process = start_program(script)
    assert read_line(process) == "training"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("saved True\nhandled\n", "")
    assert process.returncode == 5


def test_a_program_that_does_not_ask_ends_at_once_by_sigterm() -> None:
    process = start_program("import time\nelastic.report(step=1)\ntime.sleep(60)")
    assert read_line(process) == "pliant: step=1"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM


def test_forked_children_end_by_sigterm() -> None:
    script = """
import multiprocessing, signal, time
elastic.join(checkpoints=True)
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[60])
child.start()
child.terminate()
child.join()
print(child.exitcode)
"""
    process = start_program(script)
    assert process.communicate(timeout=20) == ("-15\n", "")


KEEPS_SIGTERM = ("sh", "-c", "trap '' TERM; \"$@\"; exit 0", "sh")
"""A shell, and therefore its children, which ignore SIGTERM."""


@pytest.mark.parametrize("launcher", [(), ("sh", "-c", '"$@"; exit $?', "sh"), KEEPS_SIGTERM])
def test_the_file_reaches_a_program_whatever_its_parents_do_with_signals(
    launcher: tuple[str, ...], tmp_path: Path
) -> None:
    process = start_program(LEAVE, launcher=launcher, directory=str(tmp_path))
    assert read_line(process) == "training"
    if launcher is KEEPS_SIGTERM:
        process.send_signal(signal.SIGTERM)
    assert (tmp_path / "acknowledges").exists()
    (tmp_path / "checkpoint-requested").touch()
    assert process.communicate(timeout=20) == ("saved True\n", "")
    assert (tmp_path / "checkpoint-done").exists()


def test_a_replica_that_leaves_waits_until_the_operator_deletes_it(operator: OperatorServer) -> None:
    process = start_program(LEAVE, launcher=(), directory="/nonexistent", **operator.environment)
    assert read_line(process) == "training"
    operator.wait_for("acknowledged")
    operator.request_checkpoint(3, rank=None, generation=2)
    operator.wait_for("acknowledged", 2)
    assert operator.acknowledged == [0, 3]
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("saved True\n", "")
    assert process.returncode == 143


def test_a_program_that_starts_before_the_operator_is_announced_later(
    monkeypatch: pytest.MonkeyPatch, job: elastic.Job
) -> None:
    with serve_operator() as operator:
        port = operator.server_port
        environment = operator.environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    early = elastic.Job()
    assert not early.should_checkpoint()
    assert early.membership().members == ()
    with serve_operator(port) as operator:
        operator.wait_for("acknowledged")
        assert early.wait_membership(-1, timeout=20).generation == 1
    close_job(early)
