"""Jobs whose members share one service: which services exist, and by which names members find each other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pliant.engine.decide import decide
from pliant.engine.pods.manifests import pod_manifest
from pliant.engine.pods.shared_environment import build_shared_environment
from pliant.errors import InvalidSpec
from pliant.frontends import FRONTENDS
from pliant.model.actions import Act, CreatePod, CreateService, DeleteService
from pliant.model.framework import Rank
from pliant.model.job import Job
from pliant.model.labels import replica_host
from pliant.model.observed import Observed, ObservedService
from pliant.model.state import EngineState, JobPhase
from pliant.plugins.registry import framework_of
from tests.builders import NOON
from tests.frontends import elasticjob, kubeflow, raw

PYTORCHJOB = FRONTENDS["kubeflow.org", "PyTorchJob"]
PER_REPLICA = "pliant/service-per-replica"


def annotated(manifest: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def a_pytorchjob(**annotations: str) -> dict[str, Any]:
    return annotated(kubeflow.raw_of("PyTorchJob", {"Master": 1, "Worker": 3}), **annotations)


def acted(job: Job, observed: Observed | None = None, state: EngineState | None = None) -> Act:
    """What is done for a job, as soon as it is known."""
    state = state or EngineState(phase=JobPhase.CREATING, started_at=NOON, has_job_service=True)
    decision = decide(job, state, observed or Observed(), framework_of(job), NOON)
    assert isinstance(decision, Act)
    return decision


def services(decision: Act) -> list[str]:
    return [action.name for action in decision.actions if isinstance(action, CreateService)]


def environment(job: Job, group: str, index: int) -> dict[str, str]:
    found = job.group(group)
    assert found is not None
    shared = build_shared_environment(job, framework_of(job))
    pod = pod_manifest(shared, Rank(group=found, index=index, attempt=0))
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def test_a_job_has_one_service_and_its_leader_another() -> None:
    job = PYTORCHJOB.parse(a_pytorchjob())
    assert services(acted(job)) == ["demo-master-0", "demo"]
    assert [replica_host(job, "Worker", index) for index in (0, 2)] == ["demo-worker-0.demo", "demo-worker-2.demo"]
    assert environment(job, "Worker", 1)["MASTER_ADDR"] == "demo-master-0"


def test_every_pod_has_its_name_within_the_service_of_the_job() -> None:
    pods = [each.manifest for each in acted(PYTORCHJOB.parse(a_pytorchjob())).actions if isinstance(each, CreatePod)]
    assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods} == {
        (name, "demo") for name in ("demo-master-0", "demo-worker-0", "demo-worker-1", "demo-worker-2")
    }


def test_an_annotation_gives_every_replica_its_service() -> None:
    job = PYTORCHJOB.parse(a_pytorchjob(**{PER_REPLICA: "true"}))
    assert services(acted(job)) == ["demo-master-0", "demo-worker-0", "demo-worker-1", "demo-worker-2"]
    assert replica_host(job, "Worker", 2) == "demo-worker-2"


def test_an_annotation_gives_an_aitrainingjob_one_service() -> None:
    manifest = annotated(
        raw.raw_job({"worker": {"replicas": 3, "template": kubeflow.TEMPLATE}}), **{PER_REPLICA: "false"}
    )
    job = FRONTENDS["elasticdeeplearning.ai", "AITrainingJob"].parse(manifest)
    assert services(acted(job)) == ["demo-worker-0", "demo"]
    hosts = ["demo-worker-0.team", "demo-worker-1.demo.team", "demo-worker-2.demo.team"]
    assert environment(job, "worker", 0)["WORKER_INSTANCES"].split(",") == hosts


def test_a_value_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(InvalidSpec, match='pliant/service-per-replica: must be "true" or "false", got "no"'):
        PYTORCHJOB.parse(a_pytorchjob(**{PER_REPLICA: "no"}))


@pytest.mark.parametrize("has_job_service", [True, False])
def test_a_job_keeps_the_services_that_it_started_with(has_job_service: bool) -> None:
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, has_job_service=has_job_service)
    value = str(has_job_service).lower()
    job = PYTORCHJOB.parse(a_pytorchjob(**{PER_REPLICA: value}), state)
    assert bool(job.naming.job_service) == has_job_service


def test_what_a_new_job_decided_is_stored() -> None:
    decision = decide(
        PYTORCHJOB.parse(a_pytorchjob()), None, Observed(), framework_of(PYTORCHJOB.parse(a_pytorchjob())), NOON
    )
    status = decision.status
    assert status is not None
    assert status.state.has_job_service


def test_replicas_whose_template_has_a_host_name_keep_their_services() -> None:
    template = {"spec": {**kubeflow.TEMPLATE["spec"], "hostname": "mine"}}
    manifest = kubeflow.raw_of("PyTorchJob", {"Master": 1, "Worker": {"replicas": 2, "template": template}})
    assert services(acted(PYTORCHJOB.parse(manifest))) == ["demo-master-0", "demo-worker-0", "demo-worker-1"]


def test_the_service_is_neither_made_twice_nor_deleted() -> None:
    job = PYTORCHJOB.parse(a_pytorchjob())
    found = {name: ObservedService(name=name, uid=name) for name in ("demo", "demo-master-0", "demo-worker-1")}
    actions = acted(job, Observed(services=found)).actions
    assert [each.name for each in actions if isinstance(each, CreateService)] == []
    assert [each.name for each in actions if isinstance(each, DeleteService)] == ["demo-worker-1"]


def test_tf_config_names_members_within_the_service_of_the_job() -> None:
    job = FRONTENDS["kubeflow.org", "TFJob"].parse(kubeflow.raw_of("TFJob", {"Chief": 1, "Worker": 2}))
    cluster = json.loads(environment(job, "Worker", 1)["TF_CONFIG"])["cluster"]
    assert cluster == {
        "chief": ["demo-chief-0.team.svc:2222"],
        "worker": ["demo-worker-0.demo.team.svc:2222", "demo-worker-1.demo.team.svc:2222"],
    }


def test_an_elasticjob_keeps_services_of_its_master_its_servers_and_its_first_worker() -> None:
    manifest = elasticjob.raw_ej()
    job = FRONTENDS["elastic.iml.github.io", "ElasticJob"].parse(manifest)
    job = replace(job, groups=tuple(replace(group, size=2) if not group.is_master else group for group in job.groups))
    names = [group.name for group in job.groups if group.is_master]
    assert all("." not in replica_host(job, name, 0) for name in names)
    assert replica_host(job, "worker", 0) == "demo-edljob-worker-0"
    assert replica_host(job, "worker", 1) == "demo-edljob-worker-1.demo"
    if job.group("ps") is not None:
        assert replica_host(job, "ps", 1) == "demo-edljob-ps-1"
