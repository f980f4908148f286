"""`pliant run` in real processes, as an ordinary user: every way it can end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import IO

import pytest

from tests.cli.ordinary_user import ROOT, OrdinaryUser, finished
from tests.cli.screen import seen
from tests.depth import sample

QUICKSTART = ROOT / "examples" / "quickstart"


def job(command: str, *, name: str = "demo", replicas: int = 1, more: str = "") -> str:
    """A job whose workers run a shell script."""
    return f"""\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {{name: {name}}}
spec:
  replicaSpecs:
    worker:
      replicas: {replicas}
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: aitj-worker
              image: any
              command: [sh, -c, {command!r}]
              {more}
"""


@pytest.fixture(autouse=True)
def nothing_is_left(user: OrdinaryUser) -> Iterator[None]:
    """Whatever happens in a test, no process and no file outlives the run."""
    yield
    assert user.processes() == []
    assert user.leftovers() == []


def steps(text: str) -> list[str]:
    return re.findall(r"step \d+ loss [\d.]+", text)


def wait_for(stream: IO[str], words: str) -> None:
    for line in stream:
        if words in line:
            return
    pytest.fail(f"never said {words!r}")


def test_the_quickstart_trains_and_survives_a_kill(user: OrdinaryUser) -> None:
    done = user.run("run", str(QUICKSTART / "job.yaml"))
    assert done.code == 0, done.err
    assert "✔ quickstart succeeded in " in done.err
    assert "worker-1 │ joined quickstart-worker-0.default:29500" in done.out
    assert len(steps(done.out)) == 11

    again = user.run("run", str(QUICKSTART / "restart.yaml"))
    assert again.code == 0, again.err
    assert "(2 workers, 1 restart)" in again.err
    assert "worker-1 │ step 60: kill -9 myself" in again.out
    assert steps(again.out) == steps(done.out)


def test_lines_of_short_pods_all_arrive(user: OrdinaryUser) -> None:
    text = job("seq 100; printf end", replicas=3)
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 0, done.err
    for member in range(3):
        lines = [line for line in done.out.splitlines() if line.startswith(f"worker-{member} │ ")]
        assert [line.partition("│ ")[2] for line in lines] == [*map(str, range(1, 101)), "end"]


def test_a_failure_shows_who_how_and_the_last_words(user: OrdinaryUser) -> None:
    text = job(
        'echo working; [ $TRAININGJOB_REPLICA_INDEX = 1 ] && { echo "no data" >&2; exit 3; }; sleep 60', replicas=2
    )
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 1
    assert "✘ demo failed after " in done.err
    assert "root cause: pod demo-worker-1, container aitj-worker" in done.err
    assert "│ no data" in done.err


# test_results.py shows the names of signals, tests/node the exit codes of processes.
@pytest.mark.deep
def test_a_signal_is_called_by_its_name(user: OrdinaryUser) -> None:
    done = user.run("run", user.write("job.yaml", job("kill -SEGV $$$$")))
    assert done.code == 1
    assert "worker-0 was killed by SIGSEGV (exit code 139)" in done.err


# test_session.py shows how a container that cannot start ends a run, test_advice.py what is advised.
@pytest.mark.deep
def test_a_program_that_is_not_there_ends_the_run(user: OrdinaryUser) -> None:
    text = job("x").replace("[sh, -c, 'x']", "[no-such-program]")
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 1
    assert "no-such-program" in done.err
    assert "suggestion: check the spelling; local pods use" in done.err


def test_a_program_that_cannot_start_is_explained_the_second_time_and_given_up_the_third(user: OrdinaryUser) -> None:
    text = job('exec python3 -c "import nosuchmodule"')
    text = text.replace(
        "      replicas: 1\n", "      replicas: 1\n      restartPolicy: OnFailure\n      restartLimit: 9\n"
    )
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 1
    second = "worker ended 2 times within 2s of its start: ModuleNotFoundError: No module named 'nosuchmodule'; "
    assert done.err.count(second) == 1
    assert done.err.index(second) < done.err.index("restart 2 of 9")
    assert "/python3 has no module `nosuchmodule`" in done.err
    assert "2 restarts: worker-0 exited with code 1" in done.err
    assert "the program cannot start" in done.err


# The worker must be up within the time limit, and the run lasts that long; test_session.py shows the same verdict.
@pytest.mark.deep
def test_a_job_that_hangs_is_given_up_in_time(user: OrdinaryUser) -> None:
    done = user.run("run", "--timeout", "5s", user.write("job.yaml", job("echo hi; exec sleep 1000")))
    assert done.code == 124
    assert "not finished after 5.0s" in done.err
    assert "demo/worker: Running, 1/1 running" in done.err
    assert "worker-0 │ hi" in done.err


def test_a_job_too_large_for_every_node_says_so_at_once(user: OrdinaryUser) -> None:
    text = job("true", more="resources: {requests: {cpu: 4000}}")
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 1
    assert "demo cannot start: worker-0: " in done.err
    assert "cpu" in done.err
    assert "--node-cpu" in done.err


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), *sample([(signal.SIGTERM, 143), (signal.SIGHUP, 129)], 1, "signals")]
)
def test_an_interrupted_run_cleans_up(user: OrdinaryUser, sent: signal.Signals, code: int) -> None:
    with user.start("run", user.write("job.yaml", job("echo here; exec sleep 1000"))) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "here")
        process.send_signal(sent)
        done = finished(process)
    assert done.code == code
    assert "interrupted after" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("sent", "code", "delay"),
    sample(
        [
            (sent, code, delay)
            for sent, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143))
            for delay in (0, 0.03, 0.1, 0.2, 0.4)
        ],
        2,
        "moments of interruption",
    ),
)
def test_a_run_may_be_interrupted_at_any_moment(
    user: OrdinaryUser, sent: signal.Signals, code: int, delay: float
) -> None:
    with user.start("run", user.write("job.yaml", job("exec sleep 1000"))) as process:
        limit = time.monotonic() + 30
        while not list(user.home.glob("pliant-*/run-*")):  # from then on there is something to clean up
            assert time.monotonic() < limit, "it never began"
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(sent)
        done = finished(process)
    assert "Traceback" not in done.err
    assert done.code in (code, -sent)
    if done.code == -sent:  # nobody listened yet: the next run cleans up
        assert user.run("run", "-q", user.write("job.yaml", job("true"))).code == 0


def test_a_second_interrupt_waits_for_nothing(user: OrdinaryUser) -> None:
    stubborn = job('trap "" TERM INT; echo here; while :; do sleep 1; done').replace(
        "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 1000"
    )
    with user.start("run", user.write("job.yaml", stubborn)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        wait_for(process.stdout, "here")
        process.send_signal(signal.SIGINT)
        wait_for(process.stderr, "stopping…")
        process.send_signal(signal.SIGINT)
        done = finished(process)
    assert done.code == 130
    user.run("run", user.write("job.yaml", job("true")))


def test_what_a_killed_run_leaves_is_swept_by_the_next(user: OrdinaryUser) -> None:
    with user.start("run", user.write("job.yaml", job("echo here; exec sleep 1000"))) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "here")
        process.kill()
        process.wait()
    assert user.run("run", user.write("job.yaml", job("true"))).code == 0


def test_a_reader_that_goes_away_ends_the_run_quietly(user: OrdinaryUser) -> None:
    with user.start("run", user.write("job.yaml", job("while :; do echo line; sleep 0.05; done"))) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "line")
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == 141
    assert "Traceback" not in said


def test_a_terminal_gets_a_live_view(user: OrdinaryUser) -> None:
    ours, theirs = os.openpty()
    text = job('for step in $(seq 11); do echo "step $step loss 0.5"; done')
    with user.start("run", user.write("job.yaml", text), stdout=theirs, stderr=subprocess.STDOUT) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:
            pass  # the other end of a terminal closes with an error
        assert process.wait(60) == 0
    os.close(ours)
    screen = shown.decode()
    *lines, verdict = seen(screen)
    assert "demo/worker" in screen
    assert "\x1b[36mworker-0 │ \x1b[0m" in screen
    assert len(steps("\n".join(lines))) == 11
    assert all(line.startswith("worker-") for line in lines)
    assert "demo succeeded" in verdict
    assert "\x1b[?25h" in screen


def test_quiet_says_only_how_it_ended_and_data_can_be_kept(user: OrdinaryUser) -> None:
    folder = user.home / "data"
    file = user.write("job.yaml", job("echo hi"))
    done = user.run("run", "--quiet", "--data", str(folder), file)
    assert done.out == ""
    assert re.fullmatch(r"✔ demo succeeded in [\d.]+s \(1 worker\)\n", done.err)
    assert any(folder.iterdir())
    again = user.call("run", "--data", str(folder), file)
    assert again.code == 2
    assert "the directory is not empty" in again.err


# The runs of the default choice do not meet either: several are under way at once.
@pytest.mark.deep
def test_two_runs_at_once_do_not_meet(user: OrdinaryUser) -> None:
    with (
        user.start("run", str(QUICKSTART / "job.yaml")) as first,
        user.start("run", str(QUICKSTART / "job.yaml")) as second,
    ):
        assert finished(first).code == finished(second).code == 0
