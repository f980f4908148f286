"""The example of a plugin: installed as anybody would, it is known to every command, and its job runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import user
from tests.cli.ordinary_user import ROOT, OrdinaryUser
from tests.quickyaml import documents

__all__ = ["user"]

EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A folder for packages with the example in it, put there by pip; outside of pytest's private ones."""
    base = Path(tempfile.mkdtemp(prefix="pliant-plugin-"))
    source, packages = base / "source", base / "packages"
    shutil.copytree(EXAMPLE, source)  # builds leave things behind
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *options, "--target", str(packages), str(source)]
    subprocess.run(pip, check=True, timeout=100)
    for folder in (base, packages):
        folder.chmod(0o755)
    yield packages
    shutil.rmtree(base)


@pytest.fixture
def author(user: OrdinaryUser, installed: Path) -> Iterator[OrdinaryUser]:
    """Somebody who has installed it."""
    path = f"{installed}{os.pathsep}{user.environment['PYTHONPATH']}"
    yield replace(user, more={**user.more, "PYTHONPATH": path})
    assert user.leftovers() == []


def test_the_class_is_as_short_as_it_is_promised() -> None:
    assert len((EXAMPLE / "ring_kind.py").read_text().splitlines()) <= 30


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    module = (EXAMPLE / "ring_kind.py").read_text()
    assert module[module.index("class RingJob") :] in page
    assert (EXAMPLE / "ring.yaml").read_text() in page
    assert 'ring = "ring_kind:RingJob"' in page


def test_its_job_runs(author: OrdinaryUser) -> None:
    ended = author.run("run", str(EXAMPLE / "ring.yaml"))
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == [f"worker-{rank} │ rank {rank} of 3: the sum is 6" for rank in range(3)]


def test_its_kind_is_defined_and_its_operator_has_the_rights(author: OrdinaryUser) -> None:
    [crd] = yaml.safe_load_all(author.run("crds", "--kinds", "RingJob").out)
    assert crd["metadata"]["name"] == "ringjobs.example.com"
    objects = documents(author.run("install", "--kinds", "example.com").out)
    assert "ringjobs.example.com" in {each["metadata"]["name"] for each in objects}
    roles = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ClusterRole"}
    role = roles["pliant-operator.pliant-system"]
    ours = [rule for rule in role["rules"] if rule["apiGroups"] == ["example.com"]]
    assert [rule["resources"] for rule in ours] == [["ringjobs"], ["ringjobs/status"], ["ringjobs/finalizers"]]


def test_a_mistake_in_its_job_is_told_with_its_place(author: OrdinaryUser) -> None:
    text = (EXAMPLE / "ring.yaml").read_text()
    ended = author.run("run", author.write("job.yaml", text.replace("replicaType: worker", "replicaType: wroker")))
    assert ended.code == 2
    assert "job.yaml:6:5: error:" in ended.err
    assert '"wroker" is not one of worker; did you mean worker?' in ended.err
    assert "spec[0].replicaType of RingJob ring" in ended.err


def test_the_doctor_tells_what_is_added(author: OrdinaryUser) -> None:
    assert "✓ plugins        ring of ring-kind 0.1" in author.run("doctor").out


@pytest.mark.deep  # tests/plugins shows the same without processes
def test_a_plugin_that_is_broken_is_named_in_one_line_and_jobs_run_all_the_same(author: OrdinaryUser) -> None:
    info = author.home / "bad_kind-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-kind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pliant.kinds]\nbad = bad_kind:BadJob\n")
    path = f"{author.home}{os.pathsep}{author.environment['PYTHONPATH']}"
    unlucky = replace(author, more={**author.more, "PYTHONPATH": path})
    told = "plugin bad of bad-kind 1.0 is skipped: ModuleNotFoundError: No module named 'bad_kind'"
    ended = unlucky.run("run", "--quiet", str(EXAMPLE / "ring.yaml"))
    assert ended.code == 0
    assert ended.err.splitlines()[0] == told
    assert ended.err.count("bad_kind") == 1
    examined = unlucky.run("doctor")
    assert examined.code == 1
    assert "✗ plugins        bad of bad-kind 1.0 is skipped" in examined.out
