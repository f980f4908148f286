"""What the master reads: its job, its pods, its arguments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pliant.errors import InvalidSpec, UserError
from pliant.kube.codec import decode_object, encode
from pliant.kube.objects import Pod
from pliant.master.control.parsing import members_from_pods, parse_elastic_job
from pliant.master.control.scale_plans import (
    blocks_next_plan,
    build_scale_plan,
    have_requested_members_appeared,
    next_plan_number,
)
from pliant.master.main import brain_timing_from_arguments, parse_arguments, service_timing_from_arguments
from pliant.master.model import (
    Heartbeat,
    JobMember,
    MemberKey,
    MemberPodRequest,
    MemberStatus,
    PodResources,
    ReplicaSizing,
    ScaleAction,
    SizingStage,
)

GIB = 1024**3
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def elastic_job(worker: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "train"}
    template = {"spec": {"containers": [container]}}
    replicas = {"worker": {"template": template, **(worker or {})}, "dlrover-master": {"template": template}}
    return {"metadata": {"name": "demo", "namespace": "ml", "uid": "u-1"}, "spec": {"replicaSpecs": replicas, **spec}}


def pod(name: str = "worker-3", phase: str = "Running", **changes: Any) -> Pod:
    type_, _, number = name.rpartition("-")
    limits = {"cpu": "500m", "memory": "1Gi"}
    labels = {"replica-type": type_, "replica-index": number, "rank-index": "1", "relaunch-count": "2"}
    raw = {
        "metadata": {
            "name": f"demo-edljob-{name}",
            "creationTimestamp": "2029-12-31T23:59:00Z",
            "labels": {f"elasticjob.dlrover/{key}": value for key, value in labels.items()},
            **changes.pop("metadata", {}),
        },
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "main", "resources": changes.pop("resources", {"limits": limits})}],
        },
        "status": {"phase": phase, "podIP": "10.0.0.7", **changes},
    }
    return decode_object(encode(raw), Pod)


def one(made: Pod) -> JobMember:
    (node,) = members_from_pods([made], {}, NOW)
    return node


def test_what_an_author_left_open_is_open() -> None:
    job = parse_elastic_job(elastic_job())
    assert (job.namespace, job.name, job.uid, job.strategy) == ("ml", "demo", "u-1", "ParameterServerStrategy")
    assert list(job.roles) == ["worker"]
    role = job.roles["worker"]
    assert (
        role.replicas,
        role.max_size,
        role.resources,
        role.may_scale,
        role.restart_limit,
        role.user_requested_size,
    ) == (None, None, PodResources(), True, 3, None)
    assert job.allows_tuning


def test_what_an_author_gave_is_read() -> None:
    asked = {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"nvidia.com/gpu": 2}}
    template = {"spec": {"restartPolicy": "Always", "containers": [{"name": "main", "resources": asked}]}}
    worker = {"replicas": 4, "maxReplicas": 8, "minReplicas": 2, "restartCount": 9, "autoScale": False}
    job = parse_elastic_job(
        elastic_job(
            {**worker, "template": template},
            resourceLimits={"cpu": "20", "memory": "64Gi"},
            optimizeMode="manual",
            suspend=True,
        )
    )
    role = job.roles["worker"]
    assert role.resources == PodResources(cpu=1.5, memory=2 * GIB, extended_resources={"nvidia.com/gpu": "2"})
    assert (role.replicas, role.min_size, role.max_size, role.restart_limit) == (4, 2, 8, 5)
    assert (role.may_scale, role.restarts_always, job.allows_tuning, job.is_suspended) == (False, True, False, True)
    assert (job.resource_limits.cpu, job.resource_limits.memory) == (20, 64 * GIB)


def test_a_strategy_may_have_its_old_name() -> None:
    assert parse_elastic_job(elastic_job(distributionStrategy="Allreduce")).strategy == "AllreduceStrategy"


def test_none_is_as_good_as_no_number() -> None:
    assert parse_elastic_job(elastic_job({"replicas": 0})).roles["worker"].replicas is None


def test_a_persons_word_is_known_from_a_masters() -> None:
    raw = elastic_job()
    asked = {"plan": {"size": 2, "at": "2030-01-01T00:00:01Z"}, "master": {"size": 4, "at": "2030-01-01T00:00:00Z"}}
    state = {"phase": "Running", "startedAt": "2030-01-01T00:00:00Z", "groups": {"worker": {"sizeRequests": asked}}}
    raw["status"] = {"pliant": state}
    assert parse_elastic_job(raw).roles["worker"].user_requested_size == 2
    asked["master"]["at"] = "2030-01-01T00:00:02Z"
    assert parse_elastic_job(raw).roles["worker"].user_requested_size is None


def test_nonsense_is_named() -> None:
    with pytest.raises(InvalidSpec, match=r"spec.resourceLimits: 'lots' is not a quantity"):
        parse_elastic_job(elastic_job(resourceLimits={"cpu": "lots"}))


def test_a_member_is_read_from_its_pod() -> None:
    beat = Heartbeat(at=NOW, step=3)
    (node,) = members_from_pods([pod()], {MemberKey("worker", 3): beat}, NOW)
    assert (node.key, node.rank, node.relaunches, node.status) == (MemberKey("worker", 3), 1, 2, MemberStatus.RUNNING)
    assert node.resources == PodResources(cpu=0.5, memory=GIB)
    assert (node.address, node.node_name, node.heartbeat) == ("10.0.0.7:3333", "n", beat)
    assert one(pod("ps-0")).address == "10.0.0.7:2222"


def test_the_master_and_strangers_are_no_members() -> None:
    stranger = pod(metadata={"labels": {"elasticjob.dlrover/replica-type": "worker"}})
    assert members_from_pods([pod("dlrover-master-0"), stranger], {}, NOW) == ()


def test_who_has_to_leave_while_at_work_is_lost() -> None:
    leaving = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    labels = pod().metadata.labels
    assert one(pod(metadata={"labels": labels, **leaving})).status is MemberStatus.LOST
    assert one(pod(phase="Succeeded", metadata={"labels": labels, **leaving})).status is MemberStatus.SUCCEEDED


def test_how_a_member_ended_is_read() -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2029-12-31T23:59:30Z"}
    node = one(pod(phase="Failed", containerStatuses=[{"name": "main", "state": {"terminated": ended}}]))
    assert (node.status, node.exit_code, node.reason) == (MemberStatus.FAILED, 137, "OOMKilled")
    assert node.ended_at == datetime(2029, 12, 31, 23, 59, 30, tzinfo=UTC)
    evicted = one(pod(phase="Failed", reason="Evicted"))
    assert (evicted.exit_code, evicted.reason, evicted.ended_at) == (None, "Evicted", NOW)
    assert evicted.status is MemberStatus.LOST
    saved = [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]
    assert one(pod(phase="Failed", reason="Terminated", containerStatuses=saved)).status is MemberStatus.LOST
    assert one(pod(phase="Failed", containerStatuses=saved)).status is MemberStatus.FAILED


def test_why_a_member_does_not_start_is_read() -> None:
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert one(pod(phase="Pending", conditions=[unplaced])).reason == "0/3 nodes are available"


def test_a_step_becomes_a_plan() -> None:
    shape = PodResources(cpu=0.5, memory=GIB, extended_resources={"nvidia.com/gpu": "1"})
    step = ScaleAction(
        reason="because",
        stage=SizingStage.RUNNING,
        sizing_by_type={"worker": ReplicaSizing(replicas=3, resources=shape)},
        create_pods=(MemberPodRequest(key=MemberKey("ps", 1), rank=0, resources=shape),),
        remove_members=(MemberKey("worker", 3),),
        ps_hosts=("10.0.0.7:2222",),
    )
    plan = build_scale_plan(parse_elastic_job(elastic_job()), step, "demo-scaleplan-4")
    asked = {"cpu": "500m", "memory": "1024Mi", "nvidia.com/gpu": "1"}
    assert plan["spec"] == {
        "ownerJob": "demo",
        "reason": "because",
        "replicaResourceSpecs": {"worker": {"replicas": 3, "resource": asked}},
        "createPods": [
            {
                "name": "demo-edljob-ps-1",
                "id": 1,
                "type": "ps",
                "rankIndex": 0,
                "service": "demo-edljob-ps-0:2222",
                "resource": asked,
            }
        ],
        "removePods": [{"name": "demo-edljob-worker-3", "id": 3, "type": "worker"}],
        "psHosts": ["10.0.0.7:2222"],
    }
    assert plan["metadata"]["labels"] == {"scale-type": "auto", "elasticjob.dlrover/name": "demo"}
    assert not have_requested_members_appeared(plan["spec"], {"worker/0": 0, "ps/0": 0})
    assert have_requested_members_appeared(plan["spec"], {"worker/0": 0, "worker/1": 5, "worker/2": 2, "ps/0": 1})


def test_a_member_has_its_requests_and_may_use_up_to_its_limits() -> None:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    node = one(pod(resources=resources))
    assert node.resources == PodResources(cpu=0.1, memory=GIB // 16)
    assert node.usable_memory == GIB


def test_a_plan_blocks_the_next_one_until_its_members_are_there() -> None:
    grows = {"spec": {"replicaResourceSpecs": {"worker": {"replicas": 2}}}, "status": {"phase": "Scaling"}}
    assert blocks_next_plan(grows, {"worker/0": 0})
    assert not blocks_next_plan(grows, {"worker/0": 0, "worker/1": 1})
    assert blocks_next_plan({**grows, "status": {"phase": "Pending"}}, {"worker/0": 0, "worker/1": 1})
    away = {"spec": {"removePods": [{"name": "demo-edljob-worker-1"}]}, "status": {"phase": "Scaling"}}
    assert not blocks_next_plan(away, {"worker/0": 0, "worker/1": 1})
    assert not blocks_next_plan({**grows, "status": {"phase": "Failed"}}, {})


def test_numbers_of_plans_are_never_used_twice() -> None:
    assert next_plan_number("demo", [], 0) == 0
    assert next_plan_number("demo", ["demo-scaleplan-3", "other-scaleplan-9", "demo-x-scaleplan-7"], 2) == 4
    assert next_plan_number("demo", ["demo-scaleplan-3"], 7) == 7


def test_arguments_are_read_and_others_passed_over() -> None:
    words = "--namespace ml --job_name demo --port 50001 --pending_timeout 60 --settle_time 2.5"
    words += " --service_throughput_window 1 --new x"
    args, unknown = parse_arguments(words.split())
    assert (args.namespace, args.job_name, args.port) == ("ml", "demo", 50001)
    assert (
        brain_timing_from_arguments(args).pending_timeout,
        brain_timing_from_arguments(args).settle_time,
        brain_timing_from_arguments(args).hang_timeout,
    ) == (60, 2.5, 600)
    service_timing = service_timing_from_arguments(args)
    assert (service_timing.throughput_window, service_timing.settle_time) == (1, 10)
    assert unknown == ["--new", "x"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--settle_time", "soon", "--job_name", "x"],
            "argument --settle_time: must be a number of at least 0, got 'soon'",
        ),
        (
            ["--max_replacements_per_hour", "1.5", "--job_name", "x"],
            "argument --max_replacements_per_hour: must be a whole number, got '1.5'",
        ),
        ([], "the following arguments are required: --job_name"),
    ],
)
def test_mistakes_in_arguments_are_named(words: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told.replace(".", r"\.")):
        parse_arguments(words)
