"""`pliant new` writes jobs that run as they are."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path

import pytest

from pliant.cli.cluster.apply import kind_registry_for_manifests
from pliant.cli.commands.local import new
from pliant.cli.input.manifest_checks import check_runnable_locally
from pliant.cli.input.manifests import load_manifests
from pliant.cli.main import main
from pliant.cli.starters import KUBEFLOW, STARTERS_BY_FRAMEWORK, starter_program_files
from tests.cli.ordinary_user import OrdinaryUser

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "frameworks"
ALONE = ("generic", "elastic")
"""Those that need nothing but Python, and are tried here."""
WRITTEN = [(framework, kind) for framework, starter in STARTERS_BY_FRAMEWORK.items() for kind in starter.kinds]


def made(*words: str) -> int:
    parser = ArgumentParser()
    new.configure(parser)
    return new.execute(parser.parse_args(words))


@pytest.mark.parametrize(("framework", "kind"), WRITTEN)
def test_every_starter_is_a_job_that_can_be_run(framework: str, kind: str, tmp_path: Path) -> None:
    assert made(framework, "first-try", "--kind", kind, "--out", str(tmp_path / "job")) == 0
    [manifest] = manifests = load_manifests([str(tmp_path / "job" / "job.yaml")])
    check_runnable_locally(manifests, kind_registry_for_manifests(manifests), "default")
    assert manifest.name == "first-try"
    assert manifest.api_version.startswith("kubeflow.org") == (kind == KUBEFLOW)
    for program in (tmp_path / "job").glob("*.py"):
        compile(program.read_text(), program.name, "exec")


@pytest.mark.parametrize("framework", [name for name in STARTERS_BY_FRAMEWORK if name not in ALONE])
def test_the_program_of_a_starter_is_the_one_that_is_tried_for_real(framework: str) -> None:
    assert starter_program_files(framework)["train.py"] == (EXAMPLES / framework / "train.py").read_text()


def test_nothing_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("precious")
    with pytest.raises(SystemExit) as end:
        main(["new", "pytorch", "mine"])
    assert end.value.code == 2
    assert "mine/train.py already exists" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["train.py"]
    assert (tmp_path / "mine" / "train.py").read_text() == "precious"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("generic", "Mine"), "`Mine` is not a valid name"),
        (("generic", "m" * 41), "at most 40"),
        (("mpi", "mine", "--kind", "aitrainingjob"), "--kind: mpi has no aitrainingjob starter; use one of: kubeflow"),
        (("generic", "mine", "--out", "/dev/null/x"), "cannot write"),
    ],
)
def test_mistakes_are_told(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["new", *words])
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_the_generic_starter_runs_and_tells_its_steps(user: OrdinaryUser) -> None:
    folder = user.home / "hello"
    assert user.call("new", "generic", "hello", "--out", str(folder)).code == 0
    ran = user.run("run", str(folder / "job.yaml"))
    assert ran.code == 0, ran.err
    assert "replica 1 found y = " in ran.out
    assert "step 50/50" in ran.err


# test_elasticjobs.py runs an ElasticJob to its end in the default choice, tests/master shows how records go round.
@pytest.mark.deep
def test_the_elastic_starter_learns_every_record_and_ends_with_its_master(user: OrdinaryUser) -> None:
    folder = user.home / "hello"
    assert user.call("new", "elastic", "hello", "--out", str(folder)).code == 0
    ran = user.run("run", str(folder / "job.yaml"))
    assert ran.code == 0, ran.err
    shares = [int(number) for number in re.findall(r"processed (\d+) records: y = ", ran.out)]
    assert len(shares) >= 2
    assert sum(shares) == 60_000
    assert "✔ hello succeeded" in ran.err
