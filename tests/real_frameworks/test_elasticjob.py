"""Workers of an ElasticJob train in rounds with a real framework, and go on when one of them is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ordinary_user import ROOT, OrdinaryUser
from tests.real_frameworks.environments import ENVIRONMENTS, missing

JOB = ROOT / "examples" / "frameworks" / "pytorch-elasticjob" / "job.yaml"
TORCH = next(each for each in ENVIRONMENTS if each.name == "pytorch-elasticjob")
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(200)]


@pytest.fixture
def user(tmp_path: Path) -> OrdinaryUser:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    return OrdinaryUser(home, more={"PATH": TORCH.path})


def test_workers_go_on_in_memory_when_the_leader_of_their_round_is_killed(user: OrdinaryUser) -> None:
    if problem := missing(TORCH):
        pytest.skip(f"torch is not installed: {problem}")
    with user.start("run", str(JOB), "--timeout", "180s", stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        try:
            first = read_until(lines, "3 workers continue after step 0")
            os.kill(trainer("pytorch-elasticjob-edljob-worker-0"), signal.SIGKILL)
            rest = "".join(lines)
        finally:
            process.send_signal(signal.SIGKILL)
    assert "worker-3 joins at rank 0 (worker-0 was killed with exit code 137)" in rest, f"{first}\n{rest}"
    # Whoever leads the round of three that follows is told how far the others are.
    later = re.findall(r"round (\d+): 3 workers continue after step (\d+)", rest)
    assert later, rest
    assert int(later[-1][0]) > 1
    assert int(later[-1][1]) > 0
    assert re.search(r"trained to loss \S+ by 3 workers", rest), rest
    assert "✔ pytorch-elasticjob succeeded" in rest


def read_until(lines: Iterator[str], words: str) -> str:
    read = []
    for line in lines:
        read.append(line)
        if words in line:
            return "".join(read)
    pytest.fail(f"`{words}` was never said\n{''.join(read)}")


def trainer(pod: str) -> int:
    """The process that trains in a pod."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"train.py" in words and f"POD_NAME={pod}\0".encode() in environ:
            return int(folder.name)
    pytest.fail(f"nobody trains in {pod}")
