"""`pliant run train.py` trains with every framework, without YAML: the programs are those of the examples."""

from __future__ import annotations

import re
import signal

import pytest

from tests.cli.ordinary_user import OrdinaryUser
from tests.real_frameworks.environments import ENVIRONMENTS, missing
from tests.real_frameworks.test_examples import EXAMPLES, PATIENCE, user

__all__ = ["user"]
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(PATIENCE + 30)]

WORKERS = {
    "pytorch": 4,
    "jax": 2,
    "xgboost": 3,
    "lightgbm": 2,
    "tensorflow-workers": 2,
    "paddle": 2,
    "mxnet": 2,
    "mpi": 2,
}


@pytest.mark.parametrize("name", WORKERS)
def test_a_script_trains_on_several_workers_by_one_command(name: str, user: OrdinaryUser) -> None:
    environment = next(each for each in ENVIRONMENTS if each.name == name)
    if problem := missing(environment):
        pytest.skip(f"{name} is not installed: {problem}")
    user.more["PATH"] = environment.path
    script = EXAMPLES / (environment.example or name) / "train.py"
    words = ("run", str(script), "--workers", str(WORKERS[name]), "--timeout", f"{PATIENCE - 10}s")
    with user.start(*words) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.send_signal(signal.SIGKILL)
    assert process.returncode == 0, f"{out}\n{err}"
    assert re.search(r"trained to loss \S+", out)
