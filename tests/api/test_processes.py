"""What a program that uses the Python API leaves behind, however it ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.ordinary_user import OrdinaryUser, finished, identity, interpreter, new_user

PROLOGUE = """\
import os, signal, sys
import pliant
from tests.api.jobs import STEADY, make_job
"""
INTERRUPTED = f"{PROLOGUE}pliant.run(make_job('steady', STEADY))"
FORGOTTEN = f"""{PROLOGUE}
cluster = pliant.cluster()
cluster.start()
job = cluster.submit(make_job("steady", STEADY))
print(next(job.follow_logs(rank=0)))
"""
FORKED = f"""{PROLOGUE}
from pliant.embedded.kubelet.runtime import agent_process
agent_process._AGENT_TIMEOUT = 1000.0
asked, answered = os.pipe()
with pliant.cluster() as cluster:
    cluster.submit(make_job("steady", STEADY))
    child = os.fork()
    if not child:
        try:
            cluster.get("steady")
        except pliant.UserError as error:
            print(error, flush=True)
        os.write(answered, b"!")
        signal.pause()
    os.read(asked, 1)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """A user without any rights; afterwards, no process and no file of a cluster may be left."""
    with new_user() as one:
        yield one
        assert one.processes() == []
        assert one.leftovers() == []


@contextmanager
def started(user: OrdinaryUser, program: str) -> Iterator[subprocess.Popen[str]]:
    """A running program; it is killed if its test fails."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [interpreter(), "-c", program]
    with subprocess.Popen(command, cwd=user.home, env=user.environment, text=True, **streams, **identity()) as process:
        try:
            yield process
        finally:
            process.kill()


def test_an_interrupted_run_stops_its_cluster(user: OrdinaryUser) -> None:
    with started(user, INTERRUPTED) as process:
        assert process.stdout is not None
        assert any("started" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        ended = finished(process)
    assert ended.code == -signal.SIGINT
    assert ended.err.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.deep
def test_a_cluster_that_is_not_stopped_ends_with_its_process(user: OrdinaryUser) -> None:
    with started(user, FORGOTTEN) as process:
        ended = finished(process)
    assert (ended.code, ended.out, ended.err) == (0, "started\n", "")


@pytest.mark.deep
def test_a_forked_child_neither_uses_nor_keeps_the_cluster_of_its_parent(user: OrdinaryUser) -> None:
    with started(user, FORKED) as process:
        ended = finished(process)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("the cluster belongs to the parent of this process")
