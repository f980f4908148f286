"""Every example of a framework trains for real, in processes that find each other by its contract alone."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.cli.ordinary_user import ROOT, OrdinaryUser
from tests.real_frameworks.environments import ENVIRONMENTS, Environment, missing

EXAMPLES = ROOT / "examples" / "frameworks"
PATIENCE = 240
"""Seconds for the slowest: most of it is spent on imports, by four processes on two cores."""
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(PATIENCE + 30)]


@pytest.fixture
def user(tmp_path: Path) -> OrdinaryUser:
    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    return OrdinaryUser(home)


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=[each.name for each in ENVIRONMENTS])
def test_an_example_trains_to_its_loss(environment: Environment, user: OrdinaryUser) -> None:
    if problem := missing(environment):
        pytest.skip(f"{environment.name} is not installed: {problem}")
    user.more["PATH"] = environment.path
    job = EXAMPLES / (environment.example or environment.name) / "job.yaml"
    settings = [word for each in environment.settings for word in ("--set", each)]
    with user.start("run", str(job), "--timeout", f"{PATIENCE - 10}s", *settings) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.send_signal(signal.SIGKILL)
    assert process.returncode == 0, f"{out}\n{err}"
    assert re.search(r"trained to loss \S+", out)


def test_every_example_has_an_environment() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders == {each.example or each.name for each in ENVIRONMENTS}
