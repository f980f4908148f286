"""The elastic quickstart, disturbed while it trains, ends where the undisturbed one does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from tests.cli.ordinary_user import ROOT, OrdinaryUser, finished

MANIFEST = str(ROOT / "examples" / "quickstart" / "elastic.yaml")
SHORT = "spec.replicaSpecs.worker.template.spec.containers[0].env=[{name: STEPS, value: '120'}]"


def trained(text: str) -> str:
    [loss] = re.findall(r"worker-0 │ trained to (loss \d\.\d{12})$", text, re.MULTILINE)
    return str(loss)


def trained_alone() -> str:
    """Train with one worker that is not disturbed; returns its loss."""
    alone = {"WORKER_INSTANCES": "localhost", "WORKER_PORTS": "0", "TRAININGJOB_REPLICA_INDEX": "0"}
    env = {**os.environ, **alone, "POD_IP": "127.0.0.1", "STEPS": "120", "PAUSE": "0"}
    command = [sys.executable, str(Path(MANIFEST).with_suffix(".py"))]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60)
    return trained("".join(f"worker-0 │ {line}\n" for line in done.stdout.splitlines()))


def process_of(user: OrdinaryUser, rank: int) -> int:
    """The process of a worker: it has the home of its user, and its number."""
    told = (f"HOME={user.home}".encode(), f"TRAININGJOB_REPLICA_INDEX={rank}".encode())
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or not (folder / "cmdline").read_bytes().startswith(b"python3\0/app/"):
                continue
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is somebody else's
        if all(variable in variables for variable in told):
            return int(folder.name)
    pytest.fail(f"worker {rank} does not run")


def test_scaling_and_a_killed_worker_change_nothing_about_the_loss(user: OrdinaryUser) -> None:
    with user.start("run", MANIFEST, "--set", SHORT) as run:
        assert run.stdout is not None
        seen = read_until(run.stdout, "step=10 ")
        grown = user.call("scale", "elastic", "4", "--wait")
        assert grown.code == 0, grown.err
        assert "elastic: worker 2 → 4 (bounds 1–4)" in grown.out
        assert "of `pliant run`, https://127.0.0.1:" in grown.err
        os.kill(process_of(user, 1), signal.SIGKILL)
        seen += read_until(run.stdout, "worker-1 joined")
        assert user.call("scale", "elastic", "1").code == 0
        disturbed = finished(run)
    assert disturbed.code == 0, disturbed.err
    assert "elastic: resizing worker from 2 to 4 (scaled)" in disturbed.err
    assert "worker-1 was killed by SIGKILL (exit code 137); restart 1 of 3" in disturbed.err
    assert "elastic: resizing worker from 4 to 1 (scaled)" in disturbed.err
    assert "(1 worker, 1 restart; step 120/120" in disturbed.err
    assert trained(seen + disturbed.out) == trained_alone()
    assert user.processes() == []


def read_until(stream: IO[str], words: str) -> str:
    """What a run has written up to the line with these words."""
    seen = ""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        line = stream.readline()
        seen += line
        if words in line:
            return seen
    pytest.fail(f"never said {words!r}")
