"""The first steps with every framework: `pliant new`, `run`, an edit, `submit --follow`, then `logs` and `why`."""

from __future__ import annotations

import pytest

from tests.cli.ordinary_user import Ended, OrdinaryUser, finished
from tests.real_frameworks.environments import ENVIRONMENTS, missing
from tests.real_frameworks.test_examples import PATIENCE, user

__all__ = ["user"]
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(2 * PATIENCE)]

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "paddle", "jax", "xgboost", "mpi")
ALONE = ("generic", "elastic")
"""Those that need nothing but Python."""


def done(user: OrdinaryUser, *words: str) -> Ended:
    with user.start(*words) as process:
        ended = finished(process)
    assert ended.code == 0, f"{words}: {ended.out}\n{ended.err}"
    return ended


@pytest.mark.parametrize("name", [*ALONE, *FRAMEWORKS])
def test_the_first_steps_lead_to_an_edited_job_on_a_cluster(
    name: str, user: OrdinaryUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.cli.ordinary_user.PATIENCE", PATIENCE)
    if name not in ALONE:
        environment = next(each for each in ENVIRONMENTS if each.name == name)
        if problem := missing(environment):
            pytest.skip(f"{name} is not installed: {problem}")
        user.more["PATH"] = environment.path
    done(user, "new", name, "first")
    done(user, "run", "first/job.yaml")
    program = user.home / "first" / "train.py"
    program.write_text(f"print('edited', flush=True)\n{program.read_text()}")
    done(user, "up")
    try:
        followed = done(user, "submit", "first/job.yaml", "--follow")
        assert "edited" in followed.out
        assert "✔ first succeeded" in followed.err
        assert "edited" in done(user, "logs", "first").out
        assert "first succeeded" in done(user, "why", "first").out
    finally:
        done(user, "down", "--purge")
