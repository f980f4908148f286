"""A job under a real torchrun grows and shrinks while it trains."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ordinary_user import ROOT, OrdinaryUser
from tests.real_frameworks.environments import ENVIRONMENTS, missing

JOB = ROOT / "examples" / "frameworks" / "pytorch-elastic" / "job.yaml"
TORCH = next(each for each in ENVIRONMENTS if each.name == "pytorch-elastic")
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]


@pytest.fixture
def user(tmp_path: Path) -> OrdinaryUser:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    return OrdinaryUser(home, more={"PATH": TORCH.path})


def test_torchrun_goes_on_with_more_workers_and_with_fewer(user: OrdinaryUser) -> None:
    if problem := missing(TORCH):
        pytest.skip(f"torch is not installed: {problem}")
    with user.start("run", str(JOB), "--timeout", "280s", stderr=subprocess.STDOUT) as process:
        lines = _lines(process)
        try:
            _read_until(lines, "step=20 ")
            assert user.run("scale", "pytorch-elastic", "3").code == 0
            _read_until(lines, "3 processes continue after step")
            assert user.run("scale", "pytorch-elastic", "1").code == 0
            _read_until(lines, "1 processes continue after step")
            rest = "".join(lines)
        finally:
            process.send_signal(signal.SIGKILL)
    assert "by 1 processes" in rest
    assert "✔ pytorch-elastic succeeded" in rest


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout.readline, "")


def _read_until(lines: Iterator[str], words: str) -> None:
    read = []
    for line in lines:
        read.append(line)
        if words in line:
            return
    pytest.fail(f"`{words}` was never said\n{''.join(read)}")
