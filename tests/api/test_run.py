"""`pliant.run`: a job on a temporary cluster of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import pliant
from pliant import PhaseUpdate
from tests.api.jobs import DOOMED, STEADY, TRAINING, make_job


def test_a_job_of_a_file_runs_to_its_end_and_its_logs_and_state_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(make_job("mnist", f"{TRAINING}; pwd")))
    job = pliant.run(path, fields={"spec.replicaSpecs.worker.replicas": 2})
    assert (job.name, job.phase, job.succeeded) == ("mnist", "Succeed", True)
    assert job.logs(rank=1).splitlines()[1:] == ["worker 1", str(tmp_path)]
    assert sorted(job.logs(tail=1).splitlines()) == [f"worker-{rank} │ {tmp_path}" for rank in range(2)]
    assert job.progress is not None
    assert (job.progress.step, job.progress.fraction, job.progress.metrics) == (5, 0.5, {"loss": 0.5})
    assert [update.phase for update in job.follow() if isinstance(update, PhaseUpdate)][-1] == "Succeed"
    assert "mnist succeeded" in str(job.why())
    shown = capsys.readouterr()
    assert "worker-1 │ worker 1\n" in shown.out
    assert f"{job.summary}\n" in shown.err
    with pytest.raises(pliant.PliantError, match="the temporary cluster has stopped"):
        job.scale(3)


def test_a_failed_job_is_an_error_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pliant.JobFailed, match="doomed failed") as caught:
        pliant.run(make_job("doomed", DOOMED), check=True, quiet=True)
    error = caught.value
    assert (error.phase, error.replica, error.exit_code, error.last_lines) == ("Failed", "worker-0", 3, ("no data",))
    assert capsys.readouterr() == ("", "")


def test_a_run_beyond_its_timeout_is_a_timeout_error() -> None:
    with pytest.raises(TimeoutError, match=r"not finished after 0.5s \(timeout\)"):
        pliant.run(make_job("steady", STEADY), timeout=0.5, quiet=True)


def test_mistakes_are_reported_with_place_and_fix_before_a_cluster_starts(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(make_job("mnist", TRAINING, replica=2)))
    with pytest.raises(pliant.InvalidInput, match=r"unknown field `replica`[^`]*did you mean `replicas`"):
        pliant.run(path)
    with pytest.raises(TypeError, match="did you mean `nodes`"):
        pliant.run(path, node=2)  # type: ignore[call-arg]
    with pytest.raises(pliant.UserError, match="workers= applies to Python programs"):
        pliant.run(path, workers=2)
    with pytest.raises(pliant.UserError, match="nodes: `0` is not a positive integer"):
        pliant.cluster(nodes=0)
    with pytest.raises(pliant.UserError, match="timeout=0: not a positive number"):
        pliant.run(path, timeout=0)


def test_options_of_a_program_are_checked_before_a_cluster_starts(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("")
    options: list[tuple[dict[str, Any], str]] = [
        ({"workers": "2"}, "workers='2': not an integer of at least 1"),
        ({"gpus": -1}, "gpus=-1: not an integer of at least 0"),
        ({"elastic": 3}, r"elastic=3: not two bounds; write elastic=\(2, 8\)"),
        ({"arguments": "--lr 0.1"}, r"not a list; write arguments=\['--lr', '0.1'\]"),
        ({"framework": "torch"}, "`torch` is not a framework"),
        ({"workspace": tmp_path / "none"}, "none': not a directory"),
    ]
    for wrong, problem in options:
        with pytest.raises(pliant.UserError, match=problem):
            pliant.run(path, **wrong)
    with pytest.raises(TypeError, match="a path, a dict or a list of dicts is required, not NoneType"):
        pliant.run(None)  # type: ignore[arg-type]
    with pytest.raises(pliant.UserError, match="jupyter nbconvert"):
        pliant.run("notes.ipynb")


def test_a_program_runs_with_the_python_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    program = tmp_path / "lib" / "train.py"
    program.write_text(
        "import os, sys\nprint(sys.executable, os.getcwd(), sys.argv[1:], os.environ['RATE'], flush=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    job = pliant.run("lib/train.py", workers=2, arguments=["--epochs", "2"], env={"RATE": "0.1"}, quiet=True)
    assert job.logs(rank=1) == f"{sys.executable} {tmp_path} ['--epochs', '2'] 0.1\n"
    program.write_text("def f(:")
    with pytest.raises(pliant.InvalidInput, match="not valid Python"):
        pliant.run(program)
