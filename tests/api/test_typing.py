"""Type checkers understand programs that use the Python API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.ordinary_user import ROOT

PROGRAM = """\
import pliant
from pliant import aio


def train(cluster: pliant.Cluster) -> pliant.Job:
    job = cluster.run("train.py", workers=4, elastic=(1, 8), timeout=60)
    for update in job.follow():
        if isinstance(update, pliant.ResizeUpdate):
            size: int = update.sizes["worker"]
    progress = job.progress
    loss: float = progress.metrics["loss"] if progress else 0.0
    text: str = job.logs(rank=0) + str(job.why())
    return job


async def train_async() -> str:
    async with aio.cluster(nodes=2, gpus=8) as cluster:
        job: aio.Job = await cluster.submit({"kind": "AITrainingJob"})
        return [line async for line in job.follow_logs()][-1]


with pliant.cluster(nodes=2) as cluster:
    reveal_type(train(cluster).state.groups)
reveal_type(pliant.submit("job.yaml", context="prod").wait(timeout=1.5))
pliant.run("train.py", wrokers=4)
"""


@pytest.mark.deep
def test_a_strict_type_checker_accepts_correct_programs_and_finds_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), path.name]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(ROOT)}, check=False, capture_output=True, text=True
    )
    found = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith(path.name)]
    assert len(found) == 4, done.stdout
    assert "tuple[pliant.api.status.GroupStatus, ...]" in found[0]
    assert "pliant.api.status.JobState" in found[1]
    assert found[2].startswith('error: Unexpected keyword argument "wrokers" for "run"')
