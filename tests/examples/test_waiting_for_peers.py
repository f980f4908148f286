"""The programs of the examples wait for a peer whose name does not resolve yet, but not forever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICKSTART = {
    "WORKER_INSTANCES": "late-0.invalid,late-1.invalid",
    "WORKER_PORTS": "7000",
    "TRAININGJOB_REPLICA_INDEX": "1",
    "TRAININGJOB_REPLICA_RESTARTCOUNT": "0",
}
PADDLE = {
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_TRAINERS": "2",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_PORT": "36000",
    "PADDLE_PSERVERS_IP_PORT_LIST": "late-0.invalid:36000",
    "PADDLE_TRAINER_ENDPOINTS": "late-0.invalid:36000,late-1.invalid:36000",
    "POD_IP": "late-0.invalid",
    "TRAINING_ROLE": "TRAINER",
}


@pytest.mark.parametrize(
    ("program", "environment"),
    [
        ("quickstart/train.py", QUICKSTART),
        ("quickstart/elastic.py", QUICKSTART),
        ("paddle/train.py", PADDLE | {"PADDLE_TRAINING_ROLE": "TRAINER"}),
        ("paddle/train.py", PADDLE | {"PADDLE_TRAINING_ROLE": "PSERVER"}),
        ("paddle-batch/train.py", PADDLE),
        ("paddle-batch/servers.py", PADDLE),
    ],
)
def test_a_program_gives_up_on_a_peer_that_never_comes(
    tmp_path: Path, program: str, environment: dict[str, str]
) -> None:
    text = (EXAMPLES / program).read_text()
    assert text.count("PATIENCE = 300") == 1
    (tmp_path / "program.py").write_text(text.replace("PATIENCE = 300", "PATIENCE = 1"))
    run = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert "late-0.invalid" in run.stderr
    assert "Traceback" not in run.stderr
