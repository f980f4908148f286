"""Kubeflow's own Python SDK cannot tell the embedded cluster from one with Kubeflow's operator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real_frameworks.environments import KUBEFLOW_SDK, missing
from tests.scenarios.cluster import an_ordinary_user, cluster

SESSION = Path(__file__).with_name("kubeflow_session.py")
PATIENCE = 180.0
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(240)]


def test_the_sdk_creates_waits_for_reads_and_deletes_jobs() -> None:
    if problem := missing(KUBEFLOW_SDK):
        pytest.skip(f"the SDK is not installed: {problem}")
    with an_ordinary_user() as user, cluster(user) as site:
        told = _session(site.kubeconfig)
    assert told["from_a_function"] == {
        "logs": {"one-master-0": "step 0\nstep 1\nstep 2\n"},
        "conditions": {"Created": "True", "Running": "False", "Succeeded": "True"},
    }
    names = ("two-master-0", "two-worker-0", "two-worker-1")
    assert told["from_models"] == {
        "logs": {name: f"rank {rank} of 3 at two-master-0\n" for rank, name in enumerate(names)},
        "was running": True,
        "succeeded": True,
        "master": ["two-master-0"],
        "second": ["two-worker-1"],
    }
    assert told["of_tensorflow"] == {"logs": {"three-chief-0": "chief 0\n"}}
    assert told["change"] == {"labels": {"team": "vision"}, "listed": ["one", "two"], "left": []}


def _session(kubeconfig: Path) -> dict[str, Any]:
    python = KUBEFLOW_SDK.folder / "bin" / "python3"
    ran = subprocess.run([python, SESSION, kubeconfig], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))
