"""The container image: there is no container engine in tests, but what it is made of can be tried."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pliant.cli.cluster.operator_manifests import OPERATOR_UID
from tests.cli.ordinary_user import ROOT

RECIPE = [
    (words[0], words[1:])
    for line in (ROOT / "Dockerfile").read_text().splitlines()
    if line and not line.startswith("#") and (words := line.split())
]
PATIENCE = 300.0
"""Seconds in which a few packages must be fetched and installed."""


def copied() -> list[str]:
    """What the recipe takes from this folder."""
    from_here = [words[:-1] for step, words in RECIPE if step == "COPY" and not words[0].startswith("--from=")]
    return [name for names in from_here for name in names]


def is_sent(name: str) -> bool:
    """Whether a builder gets to see a file of this folder: the last line that speaks of it decides."""
    is_in = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch(name, line.removeprefix("!")):
            is_in = line.startswith("!")
    return is_in


def test_all_that_the_image_is_made_of_is_there_and_nothing_else_is_sent() -> None:
    assert copied()
    for name in copied():
        assert (ROOT / name).exists(), f"the Dockerfile copies {name}, which is not there"
        assert is_sent(name), f"the Dockerfile copies {name}, which .dockerignore keeps away"
    assert [path.name for path in ROOT.iterdir() if is_sent(path.name) and path.name not in copied()] == []


def test_the_image_runs_our_command_as_the_user_of_the_deployment() -> None:
    steps = dict(RECIPE)
    assert steps["USER"] == [f"{OPERATOR_UID}:{OPERATOR_UID}"]
    assert json.loads(" ".join(steps["ENTRYPOINT"])) == ["pliant"]
    assert {words[0] for step, words in RECIPE if step == "FROM"} == {"python:3.11-slim"}


@pytest.mark.deep
@pytest.mark.timeout(PATIENCE)
def test_what_the_image_is_made_of_gives_a_working_command(tmp_path: Path) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    source.mkdir()
    home.mkdir()
    for name in copied():
        there = ROOT / name
        (shutil.copytree if there.is_dir() else shutil.copy)(there, source / name)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=PATIENCE)
    program = tmp_path / "venv" / "bin"
    subprocess.run([program / "pip", "install", "--quiet", "."], cwd=source, check=True, timeout=PATIENCE)
    bare = {"PATH": str(program), "HOME": str(home)}
    for words in (["operator", "--help"], ["install"], ["version"]):
        done = subprocess.run(
            [program / "pliant", *words], cwd=home, env=bare, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout
        assert done.stderr == ""
    master = [str(program / "python"), "-m", "pliant.master", "--help"]
    assert (
        "Run the master of one ElasticJob"
        in subprocess.run(master, cwd=home, env=bare, capture_output=True, text=True, check=True, timeout=60).stdout
    )
    where = "import pliant; print(pliant.__file__)"
    asked = subprocess.run(
        [program / "python", "-c", where], cwd=home, env=bare, capture_output=True, text=True, check=True
    )
    assert asked.stdout.startswith(str(tmp_path / "venv"))
