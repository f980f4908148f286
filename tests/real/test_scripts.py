"""`pliant run train.py` against a real API server: the jobs and the code of scripts are accepted as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.ordinary_user import new_user
from tests.controlplane.installed import kubectl, wait_served
from tests.scenarios.scene import JOBS

pytestmark = pytest.mark.real


@pytest.mark.parametrize("module", ["torch", "jax", "xgboost", "mpi4py", "json"])
@pytest.mark.usefixtures("job_kinds")
def test_the_server_accepts_the_job_and_the_code_of_a_script_and_stores_nothing(
    real_kubeconfig: Path, module: str
) -> None:
    wait_served(real_kubeconfig, JOBS.full_name)
    with new_user() as user:
        user.write("train.py", f"import {module}, helper\n")
        user.write("helper.py", "# ünïcode: {a: b}\n")
        cluster = ("--kubeconfig", str(real_kubeconfig), "--image", "trainer:1")
        done = user.call("run", "train.py", "--workers", "4", "--gpus", "1", *cluster, "--dry-run=server")
    assert done.code == 0, done.err
    assert done.out == "train: accepted by the API server, not created (dry run)\n"
    assert kubectl(real_kubeconfig, "get", f"{JOBS.full_name},configmaps", "-o", "name").count("train") == 0
