"""Kinds made from one class: what they read, what they refuse, and what their authors must mend."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from pliant.embedded.schema import Schema
from pliant.errors import BrokenPlugin, InvalidSpec
from pliant.frontends.dl.job import DLJob
from pliant.frontends.dl.mpba import MpbaMXJob, MpbaTFJob
from pliant.frontends.status.engine_state import dump_state
from pliant.model.framework import Rank
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, RestartPolicy, RestartScope
from pliant.model.state import EngineState, GroupState, JobPhase
from pliant.plugins import ContainerProperties, DLReplica, ReplicaRestartPolicy
from pliant.plugins.registry import framework_of
from tests.builders import NOON, parse_stored


class RingJob(DLJob):
    """A job whose replicas pass a token around."""

    job_type = "RingJob"
    group = "example.com"
    replica_types = ["leader", "worker"]  # noqa: RUF012 - as people write it
    container_properties = ContainerProperties(
        ports={"ring": 7000}, volumes={"/dev/shm": {"emptyDir": {"medium": "Memory"}}}
    )

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        return {
            "ME": replica.host,
            "RANK": f"{replica.rank}/{replica.count()}",
            "LEADER": f"{replica.host_of('leader')}:{replica.port_of('leader')}",
            "ALL": ",".join(replica.endpoints()),
            "WORKERS": ",".join(replica.hosts("worker")),
        }


def replica(kind: str, replicas: int | None = None, **fields: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "any", **fields.pop("container", {})}
    template = {"spec": {"containers": [container], **fields.pop("pod", {})}}
    return {"replicaType": kind, **({} if replicas is None else {"replicas": replicas}), **fields, "template": template}


def raw(*replicas: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo", "uid": "u"}, "spec": list(replicas), "status": status}


def environment(job: Job, group: str, index: int = 0) -> dict[str, str]:
    found = job.group(group)
    assert found is not None
    return dict(framework_of(job).environment(job, Rank(group=found, index=index, attempt=0), "main"))


def ring(*replicas: dict[str, Any]) -> Job:
    return RingJob().parse(raw(*(replicas or (replica("Worker", 2), replica("LEADER")))))


def test_a_replica_knows_itself_and_finds_the_others_by_name() -> None:
    job = ring()
    worker = job.group("worker")
    assert worker is not None
    told = RingJob().own_framework.environment(job, Rank(group=worker, index=1, attempt=0), "main")
    assert told == {
        "ME": "demo-worker-1",
        "RANK": "2/3",
        "LEADER": "demo-leader-0:7000",
        "ALL": "demo-leader-0:7000,demo-worker-0:7000,demo-worker-1:7000",
        "WORKERS": "demo-worker-0,demo-worker-1",
    }


def test_types_are_written_in_any_case_and_any_order() -> None:
    assert [group.name for group in ring().groups] == ["leader", "worker"]


def test_a_template_gets_the_ports_and_volumes_of_its_kind_and_keeps_its_own() -> None:
    mount = {"name": "mine", "mountPath": "/dev/shm"}
    own = {"ports": [{"name": "ring", "containerPort": 7001}], "volumeMounts": [mount]}
    job = ring(replica("leader"), replica("worker", container=own))
    leader, worker = (group.template["spec"]["containers"][0] for group in job.groups)
    assert leader["ports"] == [{"name": "ring", "containerPort": 7000}]
    assert leader["volumeMounts"] == [{"name": "kind-0", "mountPath": "/dev/shm"}]
    assert worker["ports"] == own["ports"]
    assert worker["volumeMounts"] == [mount]
    assert job.groups[0].template["spec"]["volumes"] == [{"emptyDir": {"medium": "Memory"}, "name": "kind-0"}]
    told = RingJob().own_framework.environment(job, Rank(group=job.groups[1], index=0, attempt=0), "main")
    assert told["ALL"] == "demo-leader-0:7000,demo-worker-0:7001"


def test_the_success_of_the_last_type_is_the_jobs_unless_the_kind_says_otherwise() -> None:
    assert [group.complete_policy for group in ring().groups] == [EndPolicy.NONE, EndPolicy.ALL]
    led = MpbaTFJob().parse(raw(replica("worker", 2), replica("chief")))
    assert [(group.name, group.complete_policy) for group in led.groups] == [
        ("chief", EndPolicy.ALL),
        ("worker", EndPolicy.NONE),
    ]
    alone = MpbaTFJob().parse(raw(replica("ps"), replica("worker", 2)))
    assert [group.complete_policy for group in alone.groups] == [EndPolicy.NONE, EndPolicy.ALL]
    assert alone.clean_pod_policy is CleanPodPolicy.RUNNING


def test_restarts_are_what_is_written_else_what_the_template_says_else_what_the_kind_says() -> None:
    class Stubborn(RingJob):
        restart_policy, restart_scope, restart_limit = ReplicaRestartPolicy.ALWAYS, RestartScope.POD, 9

    written = replica("worker", restartPolicy="Never", restartScope="Replica", restartLimit=0)
    groups = Stubborn().parse(raw(replica("leader"), written)).groups
    assert [(each.restart_rule.policy, each.restart_rule.scope, each.restart_rule.limit) for each in groups] == [
        (RestartPolicy.ALWAYS, RestartScope.POD, 9),
        (RestartPolicy.NEVER, RestartScope.REPLICA, 0),
    ]
    said = ring(replica("leader", pod={"restartPolicy": "Never"}), replica("worker")).groups
    assert [each.restart_rule.policy for each in said] == [
        RestartPolicy.NEVER,
        RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE,
    ]


def test_how_a_job_is_run_is_written_beside_the_list() -> None:
    policy = {
        "suspend": True,
        "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 2**62,
        "cleanPodPolicy": "None",
        "backoffLimit": 4,
        "managedBy": "somebody",
    }
    job = RingJob().parse({**raw(replica("leader"), replica("worker")), "runPolicy": policy})
    assert (job.is_suspended, job.time_limit, job.counts_time_from_start) == (True, timedelta(minutes=1), True)
    assert (job.clean_pod_policy, job.restart_limit, job.managed_by) == (CleanPodPolicy.NONE, 4, "somebody")
    assert job.ttl_after_finished is not None
    with pytest.raises(InvalidSpec, match=r"runPolicy\.suspend: must be true or false"):
        RingJob().parse({**raw(replica("leader"), replica("worker")), "runPolicy": {"suspend": "yes"}})


MISTAKES: dict[str, tuple[Any, str]] = {
    "no list": ({"replicas": 1}, "spec: must be a list"),
    "nothing": ([], "spec: needs a replica of type worker"),
    "no worker": ([replica("leader"), replica("worker", 0)], "spec: needs a replica of type worker"),
    "no leader": ([replica("worker")], "spec: needs a replica of type leader"),
    "a typo": ([replica("leader"), replica("woker")], 'spec[1].replicaType: "woker" is not one of leader, worker'),
    "twice": ([replica("worker"), replica("WORKER")], "spec[1].replicaType: worker is already defined by spec[0]"),
    "too many": ([replica("worker", 10_001)], "spec[0].replicas: must be 10000 or less"),
    "far too many": (
        [replica("leader", 9_000), replica("worker", 9_000)],
        "spec: a job may have 10000 replicas at most, got 18000",
    ),
    "no container": ([{"replicaType": "worker", "template": {"spec": {}}}], "spec[0].template.spec.containers"),
    "no template": ([{"replicaType": "worker"}], "spec[0].template: is required"),
    "a number": (
        [replica("worker", pod={"restartPolicy": 5})],
        "spec[0].template.spec.restartPolicy: must be a string",
    ),
}


@pytest.mark.parametrize(("spec", "problem"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_with_their_place(spec: Any, problem: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        RingJob().parse({"metadata": {"name": "demo"}, "spec": spec})
    assert str(caught.value).startswith(problem)


def test_templates_and_types_stay_as_they_are_while_the_job_is_under_way() -> None:
    groups = {group.name: GroupState(template_hash=group.template_hash) for group in ring().groups}
    blob = dump_state(EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups=groups))
    parse_stored(RingJob(), raw(replica("Worker", 3), replica("LEADER"), pliant=blob))
    other = replica("worker", container={"image": "other"})
    with pytest.raises(InvalidSpec, match=r"spec\[0\]\.template: cannot change while the job is active"):
        parse_stored(RingJob(), raw(other, replica("leader"), pliant=blob))
    with pytest.raises(InvalidSpec, match=r"spec: leader cannot be added or removed"):
        parse_stored(RingJob(), raw(replica("worker", 2), pliant=blob))


def test_an_author_who_errs_takes_nobody_down_and_is_named() -> None:
    class Clumsy(RingJob):
        def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
            return {"FIRST": replica.hosts("worker")[7]}

    class Careless(RingJob):
        def get_environment_variables(self, replica: DLReplica) -> Any:
            return {"COUNT": replica.count()}

    with pytest.raises(InvalidSpec, match=r"Clumsy\.get_environment_variables failed for leader-0: IndexError"):
        Clumsy().parse(raw(replica("leader"), replica("worker")))
    with pytest.raises(InvalidSpec, match=r"Careless\.get_environment_variables returned 'COUNT': 2 for leader-0"):
        Careless().parse(raw(replica("leader"), replica("worker")))


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"job_type": ""}, "job_type must be a kind such as MyJob"),
    "no group": ({"group": "mine"}, "group must be a domain such as example.com, got 'mine'"),
    "no types": ({"replica_types": ()}, "replica_types must list names"),
    "one type": ({"replica_types": "worker"}, "replica_types must list names"),
    "capitals": ({"replica_types": ("Worker",)}, "replica_types: 'Worker' must be a unique name in lower case"),
    "twins": ({"replica_types": ("worker", "worker")}, "replica_types: 'worker' must be a unique name in lower case"),
    "a stranger": ({"completing": ("chief",)}, "completing: 'chief' is not one of the replica_types"),
    "a bad port": ({"container_properties": {"ports": {"http": 0}}}, "container_properties: port 'http'"),
    "a bad port in a list": ({"container_properties": {"ports": [0]}}, "container_properties: port 'port-0': 0"),
    "a port alone": ({"container_properties": {"ports": 9000}}, "container_properties: ports must be numbers by name"),
    "paths alone": ({"container_properties": {"volumes": ["/data"]}}, "container_properties: volumes must be volume"),
    "properties that are none": ({"container_properties": [9000]}, "container_properties must be a mapping"),
    "no kind at all": ({"job_type": None}, "job_type must be a kind such as MyJob, got None"),
    "a bad path": ({"container_properties": {"volumes": {"data": {}}}}, "container_properties: volume 'data'"),
    "no variables": (
        {"get_environment_variables": DLJob.get_environment_variables},
        "get_environment_variables(self, replica) is missing",
    ),
}


@pytest.mark.parametrize(("fields", "problem"), FAULTS.values(), ids=FAULTS)
def test_a_class_that_cannot_work_says_why_when_it_is_made(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(BrokenPlugin) as caught:
        type("Faulty", (RingJob,), fields)()
    assert str(caught.value).startswith(f"Faulty: {problem}")


def test_ports_may_be_a_list_of_numbers() -> None:
    kind = type("Listed", (RingJob,), {"container_properties": {"ports": [9000, 9001]}})()
    job = kind.parse(raw(replica("leader"), replica("worker")))
    assert [(port.name, port.number) for port in job.groups[0].ports] == [("port-9000", 9000), ("port-9001", 9001)]


def test_a_cluster_takes_a_type_in_any_case_and_knows_the_others_by_a_rule() -> None:
    openapi = MpbaMXJob().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    [rule] = openapi["properties"]["spec"]["items"]["properties"]["replicaType"]["x-kubernetes-validations"]
    assert rule == {
        "rule": "self.lowerAscii() in ['scheduler', 'server', 'worker']",
        "message": "must be one of scheduler, server, worker, in upper or lower case",
    }
    schema = Schema.compile(openapi)
    whole = {"apiVersion": "mpba.fbk.eu/v1", "kind": "MXJob", **raw(replica("Scheduler"), replica("WORKER"))}
    assert schema.validate(whole) == []
    [problem] = schema.validate({**whole, "spec": []})
    assert problem.field == "spec"


def test_mxnet_members_are_told_where_the_scheduler_is() -> None:
    job = MpbaMXJob().parse(raw(replica("SCHEDULER"), replica("SERVER"), replica("WORKER", 2)))
    told = {**framework_of(job).shared_environment(job), **environment(job, "worker", 1)}
    assert told.items() >= {
        ("DMLC_ROLE", "worker"),
        ("DMLC_PS_ROOT_URI", "scheduler-demo-0-service"),
        ("DMLC_PS_ROOT_PORT", "9000"),
        ("DMLC_NUM_SERVER", "1"),
        ("DMLC_NUM_WORKER", "2"),
        ("PS_VERBOSE", "2"),
    }


def test_tensorflow_members_are_told_everything_in_one_variable() -> None:
    job = MpbaTFJob().parse(raw(replica("ps"), replica("worker")))
    assert '"ps":["ps-demo-0-service.default.svc:2222"]' in environment(job, "worker")["TF_CONFIG"]
    assert '"task":{"type":"worker","index":0}' in environment(job, "worker")["TF_CONFIG"]
