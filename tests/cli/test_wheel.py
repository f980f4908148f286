"""What `pip install` of the wheel brings: a user without the repository runs a script and a starter."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli.ordinary_user import ROOT, OrdinaryUser, interpreter


@pytest.fixture
def visitor(user: OrdinaryUser) -> OrdinaryUser:
    """Somebody who has installed the wheel, and has no other copy of Pliant."""
    wheels, packages = user.home / "wheels", user.home / "packages"
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels], cwd=ROOT, check=True)
    [wheel] = wheels.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    path = os.pathsep.join([str(packages), *dependencies])
    return replace(user, more={**user.more, "PYTHONPATH": path})


def test_the_wheel_runs_scripts_and_starters(visitor: OrdinaryUser) -> None:
    where = [interpreter(), "-c", "import pliant; print(pliant.__file__)"]
    found = subprocess.run(where, env=visitor.environment, cwd=visitor.home, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(visitor.home / "packages")
    visitor.write("train.py", "import os\nprint('rank', os.environ['TRAININGJOB_REPLICA_INDEX'], flush=True)\n")
    ran = visitor.run("run", "train.py", "--workers", "4")
    assert ran.code == 0, ran.err
    assert {f"rank {rank}" for rank in range(4)} == {line.partition("│ ")[2] for line in ran.out.splitlines()}
    assert visitor.run("new", "generic", "hello").code == 0
    assert (visitor.home / "hello" / "train.py").exists()
