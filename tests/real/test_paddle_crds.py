"""PaddleJobs of paddlepaddle.org on a real API server: what people wrote years ago is taken as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.installed import kubectl, wait_served
from tests.frontends.paddle import raw_job
from tests.real.test_kubeflow_crds import Object, applied

pytestmark = pytest.mark.real

CASES = sorted((Path(__file__).parents[1] / "golden" / "paddle").glob("*.in.yaml"))


@pytest.fixture(scope="module", autouse=True)
def known(real_kubeconfig: Path, job_kinds: None) -> None:
    """The server knows these kinds."""
    for plural in ("paddlejobs", "trainingjobs"):
        wait_served(real_kubeconfig, f"{plural}.paddlepaddle.org")


@pytest.mark.parametrize("case", CASES, ids=[case.name.split(".")[0] for case in CASES])
def test_a_job_is_stored_as_it_is_written(real_kubeconfig: Path, case: Path) -> None:
    written = yaml.safe_load(case.read_text())
    written["metadata"] = {"name": written["metadata"]["name"], "namespace": "default"}
    # What is null says nothing, and kubectl leaves it out.
    assert applied(real_kubeconfig, written)["spec"] == _given(written["spec"])


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_the_elder_name_is_served_under_both_versions(real_kubeconfig: Path, version: str) -> None:
    written: Object = {
        **raw_job(),
        "apiVersion": f"paddlepaddle.org/{version}",
        "kind": "TrainingJob",
        "metadata": {"name": "elder", "namespace": "default"},
    }
    assert applied(real_kubeconfig, written)["spec"] == written["spec"]


def test_one_number_scales_the_trainers(real_kubeconfig: Path) -> None:
    written = {**raw_job(trainer={"max-instance": "6"}), "metadata": {"name": "scaled", "namespace": "default"}}
    kubectl(real_kubeconfig, "apply", "-f", "-", stdin=json.dumps(written))
    name = "paddlejobs.paddlepaddle.org/scaled"
    kubectl(real_kubeconfig, "scale", name, "--replicas=4")
    stored = json.loads(kubectl(real_kubeconfig, "get", name, "-o=json"))
    assert stored["spec"]["trainer"]["instances"] == 4
    kubectl(real_kubeconfig, "delete", name)


def _given(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _given(each) for name, each in value.items() if each is not None}
