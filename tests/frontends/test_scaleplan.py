from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pliant.embedded.schema import Schema
from pliant.frontends.scaleplan import ScalePlanFrontend, owner_job_name, parse_plan, render_plan_status
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase, PlanPodRequest, PlanStatus
from tests.builders import NOON
from tests.frontends.test_nonsense import ANYTHING

SCHEMA = Schema.compile(ScalePlanFrontend().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
AUTO = {"scale-type": "auto"}


def raw_plan(labels: Any = None, owners: Any = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ScalePlan",
        "metadata": {
            "name": "demo-scaleplan-0",
            "namespace": "team",
            "uid": "plan-uid",
            "creationTimestamp": "2026-01-01T12:00:00Z",
            **({"labels": labels} if labels else {}),
            **({"ownerReferences": owners} if owners else {}),
        },
        "spec": spec,
        **({"status": status} if status is not None else {}),
    }


def accepted(raw: dict[str, Any]) -> bool:
    """Whether a cluster takes it as it is, and keeps every field."""
    return SCHEMA.prune(raw) == [] and SCHEMA.validate(raw) == []


FIRST = """
apiVersion: elastic.iml.github.io/v1alpha1
kind: ScalePlan
metadata:
  name: clicks-scaleplan-0
  namespace: team
  labels: {scale-type: auto}
  ownerReferences:
    - {apiVersion: elastic.iml.github.io/v1alpha1, kind: elasticjob, name: clicks, uid: x}
spec:
  ownerJob: clicks
  replicaResourceSpecs:
    dlrover-master: {replicas: 0, resource: {cpu: "0", memory: 0Mi}}
    ps: {replicas: 2, resource: {cpu: 2.0, memory: 4096Mi}}
    worker: {replicas: 1, resource: {cpu: 0.5, memory: "0"}}
  createPods: []
  removePods: []
  migratePods: []
  psHosts: ["clicks-edljob-ps-0.team.svc:2222", "clicks-edljob-ps-1.team.svc:2222"]
"""


def test_the_first_plan_of_a_master() -> None:
    raw = yaml.safe_load(FIRST)
    plan = parse_plan(raw)
    assert accepted(raw)
    assert not plan.is_manual
    assert plan.parse_error == ""
    assert plan.group_requests == {
        "ps": PlanGroupRequest(size=2, resources={"cpu": "2", "memory": "4096Mi"}),
        "worker": PlanGroupRequest(size=1, resources={"cpu": "500m"}),
    }
    assert plan.server_addresses == ("clicks-edljob-ps-0.team.svc:2222", "clicks-edljob-ps-1.team.svc:2222")
    assert owner_job_name(raw) == "clicks"


def test_pods_by_name_by_id_and_by_rank() -> None:
    asked = {
        "id": 7,
        "type": "worker",
        "rankIndex": 2,
        "service": "demo-edljob-worker-2.team.svc.cluster.local:3333",
        "resource": {"cpu": 4},
    }
    gone = {"name": "demo-edljob-ps-1", "id": 1, "type": "ps", "rankIndex": 1, "service": None}
    raw = raw_plan(AUTO, createPods=[asked], removePods=[gone], migratePods=None, psHosts=None)
    plan = parse_plan(raw)
    assert accepted(raw)
    assert plan.create_pods == (
        PlanPodRequest(group="worker", id=7, rank=2, service="demo-edljob-worker-2", port=3333, resources={"cpu": "4"}),
    )
    assert plan.remove_pods == (PlanPodRequest(group="ps", name="demo-edljob-ps-1", id=1, rank=1),)
    assert (plan.migrate_pods, plan.server_addresses) == ((), ())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo-edljob-ps-0", PlanPodRequest(group="ps", name="demo-edljob-ps-0", id=0)),
        ("demo_job-ps-0", PlanPodRequest(group="ps", name="demo_job-ps-0", id=0)),
    ],
)
def test_a_name_tells_the_type(name: str, expected: PlanPodRequest) -> None:
    assert parse_plan(raw_plan(migratePods=[{"name": name}])).migrate_pods == (expected,)


OTHERS = ["other-job-worker-1", "other-edljob-worker-1", "demo-x-edljob-worker-1", "demo-edljob-ps-1", "web-0"]


@pytest.mark.parametrize("kind", ["createPods", "removePods", "migratePods"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_pod_of_another_job_is_refused_by_name(kind: str, name: str) -> None:
    plan = parse_plan(raw_plan(ownerJob="demo", **{kind: [{"name": name, "type": "worker", "id": 1}]}))
    said = f'spec.{kind}[0].name: "{name}" is not a pod of job demo, whose pods are named demo-edljob-worker-<id>'
    assert plan.parse_error == said


@pytest.mark.parametrize("job", ["demo", "demo-edljob", "demo-worker-1"])
@pytest.mark.parametrize("name", ["{job}-edljob-worker-7", "{job}-worker-7"])
def test_the_pods_of_a_job_are_told_by_its_whole_name(job: str, name: str) -> None:
    [pod] = parse_plan(raw_plan(ownerJob=job, createPods=[{"name": name.format(job=job)}])).create_pods
    assert (pod.group, pod.id) == ("worker", 7)


def test_nobody_scales_a_master() -> None:
    names = ("elasticjob-demo-dlrover-master-0", "elasticjob-demo-dlrover-master")
    listed = [{"name": "x", "type": "dlrover-master"}, *({"name": name} for name in names)]
    plan = parse_plan(raw_plan(AUTO, replicaResourceSpecs={"dlrover-master": {"replicas": 0}}, removePods=listed))
    assert (plan.group_requests, plan.remove_pods, plan.parse_error) == ({}, (), "")


@pytest.mark.parametrize(
    ("labels", "is_manual"), [(None, True), ({"scale-type": "manual"}, True), (AUTO, False), ({"x": "y"}, True)]
)
def test_a_plan_is_by_hand_unless_a_master_says_otherwise(labels: Any, is_manual: bool) -> None:
    assert parse_plan(raw_plan(labels)).is_manual is is_manual


def test_a_plan_that_a_master_has_put_its_mark_on_is_taken() -> None:
    mark = {"apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "elasticjob", "name": "demo", "uid": "job-uid"}
    assert parse_plan(raw_plan(owners=[mark])).is_claimed
    assert not parse_plan(raw_plan(owners=[{**mark, "kind": "ConfigMap"}])).is_claimed


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (raw_plan({"elasticjob.dlrover/name": "other"}, ownerJob="demo"), "demo"),
        (raw_plan({"elasticjob.dlrover/name": "demo"}), "demo"),
        (raw_plan({"elasticjob-name": "demo"}), "demo"),
        (raw_plan(owners=[{"kind": "ElasticJob", "name": "demo"}]), "demo"),
        (raw_plan(), ""),
        ({"spec": 5, "metadata": "x"}, ""),
    ],
)
def test_whose_plan_it_is_can_be_said_in_several_ways(raw: dict[str, Any], expected: str) -> None:
    assert owner_job_name(raw) == expected


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"replicaResourceSpecs": {"worker": {"replicas": -1}}},
            "spec.replicaResourceSpecs.worker.replicas: must be 0 or more, got -1",
        ),
        (
            {"replicaResourceSpecs": {"worker": {"resource": {"cpu": "two"}}}},
            'spec.replicaResourceSpecs.worker.resource.cpu: must be a quantity such as 500m or 4Gi, got "two"',
        ),
        ({"createPods": [{"rankIndex": 1}]}, "spec.createPods[0].type: is required: worker, ps, chief or evaluator"),
        (
            {"createPods": [{"type": "ps", "service": "a:b"}]},
            'spec.createPods[0].service: must be host:port, got "a:b"',
        ),
        ({"removePods": "all"}, 'spec.removePods: must be a list, got "all"'),
    ],
)
def test_a_plan_that_cannot_be_read_says_where(spec: dict[str, Any], said: str) -> None:
    plan = parse_plan(raw_plan(**spec))
    assert plan.parse_error == said
    assert (plan.group_requests, plan.create_pods, plan.remove_pods) == ({}, (), ())


def test_its_status_tells_when_it_began_and_when_it_was_done() -> None:
    later = NOON + timedelta(seconds=3)
    begun = render_plan_status(PlanStatus(phase=PlanPhase.CREATED, message="", at=NOON), {})
    done = render_plan_status(PlanStatus(phase=PlanPhase.SUCCEEDED, message="faster so", at=later), begun)
    assert begun == {"phase": "Created", "createTime": "2026-01-01T12:00:00Z"}
    assert done == {
        "phase": "Succeeded",
        "message": "faster so",
        "createTime": "2026-01-01T12:00:00Z",
        "finishTime": "2026-01-01T12:00:03Z",
    }
    plan = parse_plan(raw_plan(status=done))
    assert (plan.phase, plan.status_message, plan.finished_at) == (PlanPhase.SUCCEEDED, "faster so", later)
    assert accepted(raw_plan(status=done))


FIELDS = ["ownerJob", "reason", "replicaResourceSpecs", "createPods", "removePods", "migratePods", "psHosts"]
POD = st.dictionaries(st.sampled_from(["name", "id", "type", "rankIndex", "service", "resource"]), ANYTHING)


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING | st.lists(POD, max_size=2), max_size=3), ANYTHING, ANYTHING)
@example({"createPods": [{"type": "ps", "service": "x:²"}]}, None, {"phase": "Succeeded", "finishTime": 5})
@example({"replicaResourceSpecs": {"ps": {"resource": {"cpu": 1e308}}}}, [], {"phase": {}})
@example({"replicaResourceSpecs": {"dlrover-master": 5}}, {"kind": 5}, [])
def test_whatever_a_plan_holds_it_is_read_or_says_why_not(spec: dict[str, Any], owners: Any, status: Any) -> None:
    raw = raw_plan(owners=owners, status=status, **spec)
    plan = parse_plan(raw)
    assert plan.key.name == "demo-scaleplan-0"
    assert plan == parse_plan(raw)
    owner_job_name(raw)
    previous = status if isinstance(status, dict) else {}
    news = PlanStatus(phase=PlanPhase.PENDING, message="", at=NOON)
    assert render_plan_status(news, previous)["phase"] == "Pending"


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        ({"service": "a:" + "9" * 5000}, "spec.createPods[0].service: must be host:port"),
        ({"service": "a:65536"}, "spec.createPods[0].service: must be host:port"),
        ({"service": "A_b c/..:22"}, "spec.createPods[0].service: must be host:port"),
        ({"resource": {"a b": 1}}, 'spec.createPods[0].resource: "a b" is not a resource name'),
        ({"resource": {"cpu": "9" * 100_000}}, "spec.createPods[0].resource.cpu: must be a quantity"),
        ({"id": 10**18}, "spec.createPods[0].id: must be 999999999 or less"),
        ({"rankIndex": -1}, "spec.createPods[0].rankIndex: must be 0 or more"),
    ],
)
def test_what_no_cluster_would_take_is_refused_before_anything_is_made(pod: dict[str, Any], problem: str) -> None:
    plan = parse_plan(raw_plan(createPods=[{"type": "worker", **pod}]))
    assert plan.parse_error.startswith(problem)


def test_a_plan_repeats_no_endless_words() -> None:
    assert len(parse_plan(raw_plan(reason="x" * 1_000_000)).reason) == 1000
    assert len(parse_plan(raw_plan(replicaResourceSpecs={"x" * 100_000: 3})).parse_error) == 1000


def test_lists_in_plans_end_somewhere() -> None:
    pods = [{"type": "worker"}] * 10_001
    assert parse_plan(raw_plan(createPods=pods)).parse_error == (
        "spec.createPods: must have 10,000 pods or fewer, got 10,001"
    )
    assert parse_plan(raw_plan(psHosts=["x" * 70_000])).parse_error == (
        "spec.psHosts: must have 65,536 bytes or less in total"
    )
