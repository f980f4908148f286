"""What PaddleJobs of batch.paddlepaddle.org ask for, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.status.engine_state import dump_state
from pliant.model.job import CleanPodPolicy, EndPolicy, ResizeMode, RestartPolicy, RestartScope
from pliant.model.state import EngineState, JobOutcome, JobPhase
from tests.builders import NOON, saying
from tests.frontends.paddle_batch import group_of, parsed, role, told

RESTART, HOLD = ResizeMode.RESTART, ResizeMode.FIXED
ALL, POD = RestartScope.ALL, RestartScope.POD
ONE_GPU = {"containers": [{"name": "resnet", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
NOTHING: Mapping[str, Any] = MappingProxyType({})
VOLCANO = {"schedulerName": "volcano"}
RESTARTING = {"restartPolicy": "OnFailure"}


class Sample(NamedTuple):
    """What is written; what is understood: sizes, the way of resizing, who restarts and how far."""

    spec: dict[str, Any]
    sizes: dict[str, int]
    way: ResizeMode = HOLD
    restarts: Mapping[str, RestartScope] = NOTHING
    options: Mapping[str, Any] = NOTHING


SAMPLES = {
    "simple": Sample({"cleanPodPolicy": "Never", "worker": role(2)}, {"worker": 2}),
    "resnet": Sample({"cleanPodPolicy": "Never", "worker": role(2, pod=ONE_GPU)}, {"worker": 2}),
    "wide and deep": Sample(
        {"intranet": "Host", "cleanPodPolicy": "OnCompletion", "withGloo": 1, "ps": role(2), "worker": role(2)},
        {"ps": 2, "worker": 2},
        options={"with_gloo": 1},
    ),
    "wide and deep by service": Sample(
        {"intranet": "Service", "cleanPodPolicy": "Never", "withGloo": 1, "ps": role(2), "worker": role(2)},
        {"ps": 2, "worker": 2},
        restarts={"worker": POD},
        options={"with_gloo": 1},
    ),
    "wide and deep by address": Sample(
        {"intranet": "PodIP", "cleanPodPolicy": "Never", "withGloo": 1, "ps": role(2), "worker": role(2)},
        {"ps": 2, "worker": 2},
        options={"with_gloo": 1},
    ),
    "wide and deep with a queue": Sample(
        {"schedulingPolicy": {"queue": "default"}, "worker": role(2, pod=VOLCANO), "ps": role(2, pod=VOLCANO)},
        {"ps": 2, "worker": 2},
    ),
    "deepfm": Sample(
        {"cleanPodPolicy": "OnFailure", "withGloo": 1, "worker": role(2), "ps": role(2)},
        {"ps": 2, "worker": 2},
        options={"with_gloo": 1},
    ),
    "elastic resnet": Sample(
        {"cleanPodPolicy": "Never", "elastic": 1, "worker": role(3, pod=ONE_GPU)},
        {"worker": 3},
        way=RESTART,
        restarts={"worker": ALL},
    ),
    "restarted by their templates": Sample(
        {"worker": role(2, pod=RESTARTING), "ps": role(2, pod=RESTARTING)},
        {"ps": 2, "worker": 2},
        restarts={"ps": POD, "worker": POD},
    ),
    "heterogeneous": Sample({"ps": role(1), "worker": role(2), "heter": role(3)}, {"ps": 1, "worker": 2, "heter": 3}),
    "of numbers left out": Sample({"worker": role()}, {"worker": 1}),
}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_samples_are_understood(sample: Sample) -> None:
    job = parsed(**sample.spec)
    assert {group.name: group.size for group in job.groups} == sample.sizes
    assert {group.resize_mode for group in job.groups} == {sample.way}
    restarting = [group for group in job.groups if group.restart_rule.policy is RestartPolicy.ALWAYS]
    assert {group.name: group.restart_rule.scope for group in restarting} == sample.restarts
    assert job.framework_options == sample.options
    workers = {group.name: group.complete_policy for group in job.groups}
    assert workers == {name: EndPolicy.ALL if name == "worker" else EndPolicy.NONE for name in sample.sizes}


def test_pods_bear_the_labels_annotations_and_ports_of_the_kind() -> None:
    policy = {"queue": "night", "priorityClass": "high"}
    job = parsed(worker=role(2, pod={"hostname": "mine"}), schedulingPolicy=policy)
    worker = group_of(job)
    assert worker.template["metadata"]["annotations"] == {"paddle-resource": "worker", "volcano.sh/queue-name": "night"}
    assert (job.priority_class, job.naming.labels["paddle-res-name"]) == ("high", "{pod}")
    assert [(port.name, port.number) for port in worker.ports] == [("paddle", 36000), ("master", 36019)]


def test_ports_of_a_template_do_not_displace_those_of_the_kind() -> None:
    ports = [{"name": "master", "containerPort": 1}, {"containerPort": 36000}, {"name": "http", "containerPort": 80}]
    job = parsed(worker=role(pod={"containers": [{"name": "main", "ports": ports}]}))
    numbers = [(port.name, port.number) for port in group_of(job).ports]
    assert numbers == [("paddle", 36000), ("master", 36019), ("http", 80)]


@pytest.mark.parametrize("intranet", ["", "PodIP", "Service", "Host"])
def test_members_find_themselves_in_the_lists(intranet: str) -> None:
    job = parsed(intranet=intranet, withGloo=2, ps=role(2), worker=role(3), heter=role(1))
    lists = {"ps": "PADDLE_PSERVERS_IP_PORT_LIST", "worker": "PADDLE_TRAINER_ENDPOINTS"}
    for group in job.groups:
        for index in range(group.size):
            own = told(job, group.name, index)
            endpoints = own[lists.get(group.name, "PADDLE_HETER_ENDPOINTS")].split(",")
            assert endpoints[index] == f"{own['POD_IP']}:{own['PADDLE_PORT']}" == own["PADDLE_CURRENT_ENDPOINT"]
            assert own["PADDLE_TRAINER_ID"] == str(index)
    server = told(job, "ps")
    assert (server["PADDLE_TRAINERS_NUM"], server["PADDLE_WITH_GLOO"]) == ("3", "2")
    host, port = server["PADDLE_CURRENT_ENDPOINT"].split(":")
    assert server["PADDLE_GLOO_HTTP_ENDPOINT"] == f"{host}:{int(port) + 18}"


def test_jobs_in_the_network_of_nodes_keep_out_of_each_other_s_way() -> None:
    firsts = []
    for number in range(40):
        job = parsed(uid=f"uid-{number}", intranet="Host", ps=role(), worker=role(), heter=role())
        ranges = [group.ports[0].number for group in job.groups]
        assert ranges == [ranges[0], ranges[0] + 20, ranges[0] + 40]
        assert 20_000 <= ranges[0] <= 30_000 - 60
        assert ranges[0] % 60 == 20_000 % 60
        firsts.append(ranges[0])
        for group in job.groups:
            spec = group.template["spec"]
            assert spec["hostNetwork"] is True
            port = group.ports[0].number
            assert spec["containers"][0]["ports"] == [{"containerPort": port, "hostPort": port}]
    assert len(set(firsts)) > 30
    again = parsed(uid="uid-3", intranet="Host", worker=role())
    assert group_of(again).ports[0].number == firsts[3] + 20


def test_the_ports_of_nodes_can_be_chosen() -> None:
    job = parsed(annotations={"host-port": "41000"}, intranet="Host", ps=role(), worker=role())
    assert [group.ports[0].number for group in job.groups] == [41000, 41020]
    assert group_of(parsed(annotations={"host-port": "x"}, worker=role())).ports[0].number == 36000
    for wrong in ("x", "80", "65530", "1e4"):
        with pytest.raises(InvalidSpec, match=r"annotations\.host-port: must be a port between"):
            parsed(annotations={"host-port": wrong}, intranet="Host", worker=role())


CLEANING = [
    ("", CleanPodPolicy.ALL, CleanPodPolicy.RUNNING),
    ("Always", CleanPodPolicy.ALL, CleanPodPolicy.ALL),
    ("Never", CleanPodPolicy.RUNNING, CleanPodPolicy.RUNNING),
    ("OnFailure", CleanPodPolicy.RUNNING, CleanPodPolicy.ALL),
    ("OnCompletion", CleanPodPolicy.ALL, CleanPodPolicy.RUNNING),
    ("OnFailed", CleanPodPolicy.RUNNING, CleanPodPolicy.RUNNING),
]


@pytest.mark.parametrize(("policy", "when_complete", "when_failed"), CLEANING)
def test_which_pods_go_depends_on_the_end(
    policy: str, when_complete: CleanPodPolicy, when_failed: CleanPodPolicy
) -> None:
    def clean(phase: JobPhase, verdict: JobOutcome | None = None) -> CleanPodPolicy:
        state = EngineState(phase=phase, started_at=NOON, outcome=verdict)
        return parsed(cleanPodPolicy=policy, worker=role(), status={"pliant": dump_state(state)}).clean_pod_policy

    def decided(phase: JobPhase) -> JobOutcome:
        return JobOutcome(phase=phase, message=saying(""), at=NOON)

    assert parsed(cleanPodPolicy=policy, worker=role()).clean_pod_policy is CleanPodPolicy.RUNNING
    assert clean(JobPhase.RUNNING) is CleanPodPolicy.RUNNING
    assert clean(JobPhase.TERMINATING, decided(JobPhase.SUCCEED)) is clean(JobPhase.SUCCEED) is when_complete
    assert clean(JobPhase.TERMINATING, decided(JobPhase.FAILED)) is clean(JobPhase.FAILED) is when_failed


def test_a_policy_of_an_old_example_has_no_effect_and_a_warning_names_the_one_that_was_meant() -> None:
    [warning] = parsed(cleanPodPolicy="OnFailed", worker=role()).warnings
    assert warning == "spec.cleanPodPolicy: OnFailed means Never; to delete the pods of a failed job, set OnFailure"


NO_SUCH_CLEANING = 'spec.cleanPodPolicy: "OnComplete" is not one of Always, Never, OnFailure, OnCompletion'


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"cleanPodPolicy": "OnComplete", "worker": role()}, NO_SUCH_CLEANING),
        ({"intranet": "podIP", "worker": role()}, 'spec.intranet: "podIP" is not one of PodIP, Service, Host; did'),
        ({"withGloo": 3, "worker": role()}, "spec.withGloo: must be 2 or less, got 3"),
        ({}, "spec.worker: is required"),
        ({"worker": {"replicas": 1}}, "spec.worker.template: is required"),
        ({"worker": role(pod={"containers": []})}, "spec.worker.template.spec.containers: needs at least one"),
        ({"worker": role(2, requests=4, limits=3)}, "spec.worker.requests: must be at most limits (3), got 4"),
        ({"worker": role(9, limits=3)}, "spec.worker.replicas: must be between requests and limits, 1 to 3, got 9"),
        ({"worker": role(6000), "ps": role(6000)}, "spec: a job may have 10000 replicas at most, got 12000"),
        ({"worker": role(), "sampleSetRef": {"name": "imagenet"}}, "spec.sampleSetRef: is not supported: mount"),
    ],
)
def test_mistakes_are_named_with_the_fix(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as problem:
        parsed(**spec)
    assert str(problem.value).startswith(told)


def test_a_job_under_way_keeps_its_templates_and_bears_any_size() -> None:
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups={})
    assert group_of(parsed(worker=role(9, limits=3), status={"pliant": dump_state(state)})).max_size == 3
    job = parsed(worker=role(2))
    made_from = group_of(job).template_hash
    memory = {"pliant": {**dump_state(state), "groups": {"worker": {"templateHash": made_from}}}}
    parsed(worker=role(3), status=memory)
    with pytest.raises(InvalidSpec, match=r"spec\.worker\.template: cannot change while the job is active"):
        parsed(worker=role(3, pod=RESTARTING), status=memory)
    with pytest.raises(InvalidSpec, match=r"spec\.ps: cannot be added"):
        parsed(worker=role(2), ps=role(), status=memory)
    assert parsed(worker=role(3, pod=RESTARTING), suspend=True, status=memory).is_suspended


def test_servers_alone_end_their_job() -> None:
    assert group_of(parsed(ps=role(2)), "ps").complete_policy is EndPolicy.ALL
