"""Whether a cluster is up, and what becomes of its jobs when it is killed."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.asking import JOB, PATIENCE, STEADY, said, wait_for
from tests.cli.ordinary_user import OrdinaryUser


def test_the_status_tells_whether_the_cluster_is_up(user: OrdinaryUser) -> None:
    down = said(user, "status", code=3)
    assert "start one with `pliant up`" in down.err
    assert said(user, "up", "--detach", "--nodes", "2").code == 0
    try:
        up = said(user, "status").out
        assert re.search(r"^cluster `default` +running for \d+s \(pid \d+\)$", up, re.MULTILINE)
        assert "2 of 2 ready" in up
        assert "data/kubeconfig" in up
        [data] = json.loads(said(user, "status", "-o", "json").out)
        assert data["responds"]
        assert data["authorization"] == "RBAC"
        assert len(data["nodes"]) == 2
    finally:
        user.call("down", "--purge")
    assert "cluster `big` is not running" in said(user, "status", "--name", "big", code=3).err


# test_acceptance.py kills a whole cluster in the default choice, too, and its jobs go on in the next one.
@pytest.mark.deep
def test_jobs_go_on_after_the_cluster_was_killed(user: OrdinaryUser) -> None:
    folder = str(user.home / "elsewhere")
    said(user, "up", "--data", folder)
    try:
        kubeconfig = Path(folder) / "kubeconfig"
        assert kubeconfig.exists()
        file = user.write("job.yaml", JOB.format(name="bert", command=STEADY, more="").replace("Limit: 1", "Limit: 9"))
        said(user, "submit", file)
        wait_for(user, "bert", " Running ")
        [before] = json.loads(said(user, "status", "-o", "json").out)
        assert "another cluster uses" in said(user, "up", "--name", "two", "--data", folder, code=1).err
        process = os.pidfd_open(before["pid"])
        signal.pidfd_send_signal(process, signal.SIGKILL)
        assert select.select([process], [], [], PATIENCE)[0]
        os.close(process)
        assert said(user, "status", code=3)
        said(user, "up", "--data", folder)
        wait_for(user, "bert", " Running ")
        why = said(user, "why", "bert").out
        assert "replaced without counting a restart" in why
        assert "worker has used 0 of 9 restarts (disruption 2 (not charged))" in why
    finally:
        user.call("down", "--purge")


# It measures time. That no large library is loaded is shown by test_commands.py in the default choice.
@pytest.mark.deep
def test_help_is_there_at_once() -> None:
    took = []
    for _ in range(5):
        began = cpu_seconds_of_children()
        subprocess.run([sys.executable, "-m", "pliant", "--help"], check=True, capture_output=True)
        took.append(cpu_seconds_of_children() - began)
    assert min(took) < 0.15


def cpu_seconds_of_children() -> float:
    """Time on the processor, which a busy machine does not change much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
