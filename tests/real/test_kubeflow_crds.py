"""Kubeflow's kinds on a real API server: what people wrote for Kubeflow's own definitions is taken as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.installed import kubectl, wait_served
from tests.depth import sample
from tests.frontends.kubeflow import KINDS, raw_of

pytestmark = pytest.mark.real

Object = dict[str, Any]
MOST_BYTES = 200_000
CASES = [
    path
    for path in sorted((Path(__file__).parents[1] / "golden").glob("*/*.in.yaml"))
    if "kubeflow.org/" in path.read_text()
]


@pytest.fixture(scope="module", autouse=True)
def known(real_kubeconfig: Path, job_kinds: None) -> None:
    """The server knows our kinds."""
    for end in KINDS.values():
        wait_served(real_kubeconfig, f"{end.plural}.{end.group}")


def applied(kubeconfig: Path, document: Object) -> Object:
    """The object as the server would store it."""
    words = ("apply", "--dry-run=server", "--validate=strict", "-o=json", "-f", "-")
    return dict(json.loads(kubectl(kubeconfig, *words, stdin=json.dumps(document))))


@pytest.mark.parametrize(
    "case", sample(CASES, 5, "stored jobs"), ids=lambda case: f"{case.parent.name}-{case.name.split('.')[0]}"
)
def test_a_job_is_stored_as_it_is_written(real_kubeconfig: Path, case: Path) -> None:
    written = yaml.safe_load(case.read_text())
    written["metadata"] = {"name": written["metadata"]["name"], "namespace": "default"}
    assert applied(real_kubeconfig, written)["spec"] == written["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_definitions_are_small_enough_for_kubectl(kind: str) -> None:
    assert len(json.dumps(KINDS[kind].crd(), separators=(",", ":"))) < MOST_BYTES


@pytest.mark.parametrize(
    ("kind", "sizes", "fields", "message"),
    [
        ("TFJob", {"Worker": -1}, {}, "should be greater than or equal to 0"),
        ("TFJob", {"Worker": {"restartPolicy": "onfailure"}}, {}, 'Unsupported value: "onfailure"'),
        ("TFJob", {"Worker": 1}, {"successPolicy": "All"}, 'Unsupported value: "All"'),
        ("MXJob", {"Worker": 1}, {"jobMode": "Train"}, 'Unsupported value: "Train"'),
        ("JAXJob", {"Worker": 1}, {"runPolicy": {"cleanPodPolicy": "Some"}}, 'Unsupported value: "Some"'),
        ("MPIJob", {"Launcher": 1}, {"slotsPerWorkers": 2}, 'unknown field "spec.slotsPerWorkers"'),
    ],
)
def test_what_makes_no_job_is_refused(
    real_kubeconfig: Path, kind: str, sizes: Object, fields: Object, message: str
) -> None:
    raw = raw_of(kind, sizes, **fields)
    raw["metadata"] = {"name": "refused", "namespace": "default"}
    with pytest.raises(AssertionError) as refusal:
        applied(real_kubeconfig, raw)
    assert message in str(refusal.value)


def test_a_job_of_the_second_version_of_mpi_is_read_as_one_of_the_first(real_kubeconfig: Path) -> None:
    [case] = [path for path in CASES if path.name == "second-version.in.yaml"]
    written = yaml.safe_load(case.read_text())
    written["metadata"] = {"name": "second", "namespace": "default"}
    kubectl(real_kubeconfig, "create", "-f", "-", stdin=json.dumps(written))
    read = json.loads(kubectl(real_kubeconfig, "get", "mpijobs.v1.kubeflow.org/second", "-o=json"))
    kubectl(real_kubeconfig, "delete", "mpijob/second")
    assert read["apiVersion"] == "kubeflow.org/v1"
    assert read["spec"] == written["spec"]


def test_the_second_version_of_mpi_checks_templates_too(real_kubeconfig: Path) -> None:
    raw = raw_of(
        "MPIJob", {"Launcher": {"template": {"spec": {"containers": [{"name": "mpi", "command": "mpirun x"}]}}}}
    )
    raw |= {"apiVersion": "kubeflow.org/v2beta1", "metadata": {"name": "refused", "namespace": "default"}}
    with pytest.raises(AssertionError, match=r"Launcher\.template\.spec\.containers\[0\]\.command"):
        applied(real_kubeconfig, raw)


def test_kubectl_scales_the_workers(real_kubeconfig: Path) -> None:
    raw = raw_of("PyTorchJob", {"Master": 1, "Worker": 2})
    raw["metadata"] = {"name": "sized", "namespace": "default"}
    kubectl(real_kubeconfig, "create", "-f", "-", stdin=json.dumps(raw))
    kubectl(real_kubeconfig, "scale", "pytorchjob/sized", "--current-replicas=2", "--replicas=3")
    read = json.loads(kubectl(real_kubeconfig, "get", "pytorchjob/sized", "-o=json"))
    kubectl(real_kubeconfig, "delete", "pytorchjob/sized")
    sizes = {name: each["replicas"] for name, each in read["spec"]["pytorchReplicaSpecs"].items()}
    assert sizes == {"Master": 1, "Worker": 3}
