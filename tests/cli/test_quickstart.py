"""The quickstart's trainer is the same in every file, and really trains."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
TRAINER = QUICKSTART / "train.py"


@pytest.mark.parametrize(
    ("name", "trainer"), [("job.yaml", "train.py"), ("restart.yaml", "train.py"), ("elastic.yaml", "elastic.py")]
)
def test_the_trainer_in_the_manifest_is_the_file_beside_it(name: str, trainer: str) -> None:
    _, code = yaml.safe_load_all((QUICKSTART / name).read_text())
    assert code["data"][trainer] == (QUICKSTART / trainer).read_text()


def worker(rank: int, port: int, *, attempt: int = 0, kill_at: int = 0) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "WORKER_INSTANCES": "127.0.0.1,127.0.0.1",
        "WORKER_PORTS": str(port),
        "TRAININGJOB_REPLICA_INDEX": str(rank),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": str(attempt),
        "STEPS": "40",
        "KILL_AT_STEP": str(kill_at),
    }
    return subprocess.Popen([sys.executable, str(TRAINER)], env=env, stdout=subprocess.PIPE, text=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def losses(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("step ")]


def test_a_worker_that_is_killed_and_comes_back_changes_nothing_about_the_result() -> None:
    port = free_port()
    with worker(0, port) as first, worker(1, port) as second:
        undisturbed, _ = first.communicate(timeout=30)
        second.communicate(timeout=30)
    assert first.returncode == second.returncode == 0
    assert losses(undisturbed)[0] == "step 1 loss 0.6931"
    assert len(losses(undisturbed)) == 3

    port = free_port()
    with worker(0, port) as first:
        with worker(1, port, kill_at=20) as victim:
            victim.communicate(timeout=30)
        with worker(1, port, attempt=1, kill_at=20) as returned:
            disturbed, _ = first.communicate(timeout=30)
            returned.communicate(timeout=30)
    assert victim.returncode == -9
    assert first.returncode == returned.returncode == 0
    assert "lost worker 1 at step 20, waiting for it" in disturbed
    assert losses(disturbed) == losses(undisturbed)
