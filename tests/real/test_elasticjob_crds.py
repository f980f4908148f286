"""ElasticJob and ScalePlan on a real API server: what people and masters write is taken as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.installed import kubectl, wait_served
from tests.frontends.elasticjob import raw_ej, role
from tests.frontends.test_scaleplan import FIRST

pytestmark = pytest.mark.real

Object = dict[str, Any]
CASES = sorted((Path(__file__).parents[1] / "golden" / "elasticjob").glob("*.in.yaml"))


@pytest.fixture(scope="module", autouse=True)
def known(real_kubeconfig: Path, job_kinds: None) -> None:
    """The server knows our kinds."""
    for plural in ("elasticjobs", "scaleplans"):
        wait_served(real_kubeconfig, f"{plural}.elastic.iml.github.io")


def applied(kubeconfig: Path, document: Object) -> Object:
    """The object as the server would store it."""
    words = ("apply", "--dry-run=server", "--validate=strict", "-o=json", "-f", "-")
    return dict(json.loads(kubectl(kubeconfig, *words, stdin=json.dumps(document))))


@pytest.mark.parametrize("case", CASES, ids=[case.name.split(".")[0] for case in CASES])
def test_a_job_is_stored_as_it_is_written(real_kubeconfig: Path, case: Path) -> None:
    written = yaml.safe_load(case.read_text())
    written["metadata"] = {"name": written["metadata"]["name"], "namespace": "default"}
    assert applied(real_kubeconfig, written)["spec"] == written["spec"]


def test_a_plan_is_stored_as_its_master_writes_it(real_kubeconfig: Path) -> None:
    written = yaml.safe_load(FIRST)
    pod = {"name": "x-edljob-ps-0", "id": 0, "type": "ps", "rankIndex": 0, "service": None, "resource": {"cpu": 1.5}}
    written["metadata"] = {"name": "first", "namespace": "default", "labels": {"scale-type": "auto"}}
    written["spec"] |= {"removePods": [pod], "reason": "nobody needs it"}
    stored = applied(real_kubeconfig, written)["spec"]
    assert stored["replicaResourceSpecs"] == written["spec"]["replicaResourceSpecs"]
    assert stored["removePods"][0]["resource"] == {"cpu": 1.5}
    assert (stored["createPods"], stored["reason"]) == ([], "nobody needs it")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minReplicas": 3, "maxReplicas": 2}, "minReplicas must be at most maxReplicas"),
        ({"replicas": -1}, "should be greater than or equal to 0"),
        ({"replica": 1}, 'unknown field "spec.replicaSpecs.worker.replica"'),
    ],
)
def test_what_makes_no_job_is_refused(real_kubeconfig: Path, fields: Object, message: str) -> None:
    raw = raw_ej(replicaSpecs={"worker": {**role(), **fields}})
    raw["metadata"] = {"name": "refused", "namespace": "default"}
    with pytest.raises(AssertionError) as refusal:
        applied(real_kubeconfig, raw)
    assert message in str(refusal.value)


def test_kubectl_scales_the_workers(real_kubeconfig: Path) -> None:
    raw = raw_ej(replicaSpecs={"worker": role(2)})
    raw["metadata"] = {"name": "scaled", "namespace": "default"}
    kubectl(real_kubeconfig, "create", "-f", "-", stdin=json.dumps(raw))
    kubectl(real_kubeconfig, "scale", "elasticjob/scaled", "--current-replicas=2", "--replicas=3")
    size = kubectl(real_kubeconfig, "get", "elasticjob/scaled", "-o=jsonpath={.spec.replicaSpecs.worker.replicas}")
    kubectl(real_kubeconfig, "delete", "elasticjob/scaled")
    assert size == "3"
