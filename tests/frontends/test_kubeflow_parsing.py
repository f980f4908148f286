"""What the kinds of kubeflow.org ask for, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.model.job import CleanPodPolicy, EndPolicy, RestartPolicy
from tests.frontends.kubeflow import KINDS, TEMPLATE, parsed

ALL, ANY, RANK0, NONE = EndPolicy.ALL, EndPolicy.ANY, EndPolicy.RANK0, EndPolicy.NONE
Sizes = dict[str, Any]

ENDS: list[tuple[str, Sizes, Sizes, dict[str, EndPolicy]]] = [
    ("PyTorchJob", {"Master": 1, "Worker": 2}, {}, {"Master": RANK0, "Worker": NONE}),
    ("PyTorchJob", {"Worker": 2}, {}, {"Worker": ALL}),
    ("PyTorchJob", {"Worker": 2}, {"elasticPolicy": {}}, {"Worker": ANY}),
    ("TFJob", {"Chief": 1, "Worker": 2, "PS": 1}, {}, {"Chief": RANK0, "Worker": NONE, "PS": NONE}),
    ("TFJob", {"Master": 1, "Worker": 2}, {"successPolicy": "AllWorkers"}, {"Master": RANK0, "Worker": NONE}),
    ("TFJob", {"Worker": 2, "PS": 1, "Evaluator": 1}, {}, {"Worker": RANK0, "PS": NONE, "Evaluator": NONE}),
    ("TFJob", {"Worker": 2, "PS": 1}, {"successPolicy": "AllWorkers"}, {"Worker": ALL, "PS": NONE}),
    ("TFJob", {"Worker": 2, "PS": 1}, {"successPolicy": ""}, {"Worker": RANK0, "PS": NONE}),
    ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 2}, {}, {"Scheduler": NONE, "Server": NONE, "Worker": ALL}),
    ("MXJob", {"TunerTracker": 1, "Tuner": 1}, {"jobMode": "MXTune"}, {"TunerTracker": NONE, "Tuner": ALL}),
    ("XGBoostJob", {"Master": 1, "Worker": 2}, {}, {"Master": RANK0, "Worker": NONE}),
    ("PaddleJob", {"Worker": 2}, {}, {"Worker": ALL}),
    ("PaddleJob", {"Master": 1, "Worker": 2}, {}, {"Master": ALL, "Worker": NONE}),
    ("JAXJob", {"Worker": 2}, {}, {"Worker": ALL}),
    ("MPIJob", {"Launcher": 1, "Worker": 2}, {}, {"Launcher": RANK0, "Worker": NONE}),
]


@pytest.mark.parametrize(("kind", "sizes", "fields", "ends"), ENDS)
def test_the_right_ones_speak_for_the_job(kind: str, sizes: Sizes, fields: Sizes, ends: dict[str, EndPolicy]) -> None:
    job = parsed(kind, sizes, **fields)
    assert {group.name: group.complete_policy for group in job.groups} == ends
    assert {group.fail_policy for group in job.groups} == {ANY}
    assert (job.complete_policy, job.fail_policy) == (ANY, ANY)


def test_dynamic_workers_fail_one_by_one() -> None:
    job = parsed("TFJob", {"Chief": 1, "Worker": 2}, enableDynamicWorker=True)
    assert [group.fail_policy for group in job.groups] == [ANY, NONE]
    assert job.framework_options == {"dynamic_workers": True}


DEFAULTS = {
    "PyTorchJob": (RestartPolicy.ALWAYS, "pytorchjob-port", 23456, CleanPodPolicy.NONE),
    "TFJob": (RestartPolicy.NEVER, "tfjob-port", 2222, CleanPodPolicy.NONE),
    "MXJob": (RestartPolicy.NEVER, "mxjob-port", 9091, CleanPodPolicy.NONE),
    "XGBoostJob": (RestartPolicy.NEVER, "xgboostjob-port", 9999, CleanPodPolicy.NONE),
    "PaddleJob": (RestartPolicy.ALWAYS, "master", 36543, CleanPodPolicy.NONE),
    "JAXJob": (RestartPolicy.NEVER, "jaxjob-port", 6666, CleanPodPolicy.NONE),
    "MPIJob": (RestartPolicy.NEVER, "mpi-port", 9999, CleanPodPolicy.RUNNING),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_as_it_was_under_kubeflow(kind: str) -> None:
    leader = KINDS[kind].kubeflow_kind.required_role or KINDS[kind].kubeflow_kind.roles[0]
    job = parsed(kind, {leader: {}})
    [group] = job.groups
    port = group.ports[-1]
    assert (group.restart_rule.policy, port.name, port.number, job.clean_pod_policy) == DEFAULTS[kind]
    assert group.size == 1
    assert job.restart_limit is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Always", RestartPolicy.ALWAYS),
        ("OnFailure", RestartPolicy.ALWAYS),
        ("Never", RestartPolicy.NEVER),
        ("ExitCode", RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE),
    ],
)
def test_restart_policies(written: str, meant: RestartPolicy) -> None:
    job = parsed("JAXJob", {"Worker": {"restartPolicy": written}})
    assert job.groups[0].restart_rule.policy is meant
    assert (127 in job.restart_exit_codes, 128 in job.restart_exit_codes) == (False, True)


@pytest.mark.parametrize("place", ["new", "old", "both"])
def test_the_run_policy_is_read_in_its_new_and_in_its_old_place(place: str) -> None:
    policy: Sizes = {"cleanPodPolicy": "All", "backoffLimit": 2, "activeDeadlineSeconds": 60}
    places: dict[str, Sizes] = {"new": {"runPolicy": policy}, "old": policy, "both": {"runPolicy": policy, **policy}}
    job = parsed("TFJob", {"Worker": 1}, ttlSecondsAfterFinished=5, **places[place])
    assert (job.clean_pod_policy, job.restart_limit) == (CleanPodPolicy.ALL, 2)
    assert (job.time_limit, job.ttl_after_finished) == (timedelta(seconds=60), timedelta(seconds=5))


def test_groups_are_known_in_any_case() -> None:
    assert [group.name for group in parsed("TFJob", {"ps": 1, "CHIEF": 1}).groups] == ["Chief", "PS"]


def test_a_job_under_way_keeps_to_its_bounds_whatever_size_is_asked_for() -> None:
    memory = {"pliant": {"phase": "Running", "startedAt": "2026-01-01T12:00:00Z"}}
    [group] = parsed("PaddleJob", {"Worker": 9}, elasticPolicy={"maxReplicas": 4}, status=memory).groups
    assert (group.size, group.min_size, group.max_size) == (9, 1, 4)


def test_one_of_two_bounds_is_enough() -> None:
    [least] = parsed("PaddleJob", {"Worker": 3}, elasticPolicy={"minReplicas": 2}).groups
    [most] = parsed("PaddleJob", {"Worker": 3}, elasticPolicy={"maxReplicas": 5}).groups
    [neither] = parsed("PaddleJob", {"Worker": 3}, elasticPolicy={}).groups
    assert [(group.min_size, group.max_size) for group in (least, most, neither)] == [(2, 3), (1, 5), (1, 3)]


@pytest.mark.parametrize("waiting", [{}, {"command": ["sleep"], "args": ["365d"]}, {"command": ["/usr/sbin/sshd"]}])
def test_workers_of_an_mpi_job_that_only_wait_serve_the_launcher(waiting: Sizes) -> None:
    idle = {"spec": {"containers": [{"name": "mpi", "image": "train", **waiting}, {"name": "log", "image": "x"}]}}
    job = parsed("MPIJob", {"Launcher": {"template": idle}, "Worker": {"template": idle}})
    launcher, worker = (group.template["spec"]["containers"] for group in job.groups)
    assert launcher == idle["spec"]["containers"]
    assert worker == [{"name": "mpi", "image": "train", "command": ["/etc/mpi/worker"]}, launcher[1]]
    [_, busy] = parsed("MPIJob", {"Launcher": 1, "Worker": 1}).groups
    assert busy.template == TEMPLATE


def test_the_main_container_speaks_for_its_pod() -> None:
    both = {"spec": {"containers": [{"name": "log", "image": "x"}, {"name": "trainer", "image": "x"}]}}
    [launcher] = parsed("MPIJob", {"Launcher": {"template": both}}, mainContainer="trainer").groups
    assert launcher.main_containers == {"trainer"}


REFUSED: list[tuple[str, Sizes, Sizes, str]] = [
    ("TFJob", {}, {}, "spec.tfReplicaSpecs: needs at least one group"),
    ("TFJob", {"Chief": 1, "Master": 1}, {}, "spec.tfReplicaSpecs.Master: is an alias of Chief"),
    ("TFJob", {"Chief": 2}, {}, "spec.tfReplicaSpecs.Chief.replicas: must be 1, got 2"),
    ("TFJob", {"Worker": 1}, {"successPolicy": "All"}, 'spec.successPolicy: "All" is not one of AllWorkers'),
    ("TFJob", {"Wroker": 1}, {}, "spec.tfReplicaSpecs.Wroker"),
    ("MXJob", {"Worker": 1}, {"jobMode": "Train"}, 'spec.jobMode: "Train" is not one of MXTrain, MXTune'),
    ("XGBoostJob", {"Worker": 1}, {}, "spec.xgbReplicaSpecs.Master: is required: it leads the job"),
    ("XGBoostJob", {"Master": 0}, {}, "spec.xgbReplicaSpecs.Master.replicas: must be 1, got 0"),
    ("JAXJob", {"Master": 1}, {}, 'spec.jaxReplicaSpecs.Master: "Master" is not one of Worker'),
    ("MPIJob", {"Worker": 1}, {}, "spec.mpiReplicaSpecs.Launcher: is required: it leads the job"),
    ("MPIJob", {"Launcher": 1}, {"slotsPerWorker": -1}, "spec.slotsPerWorker: must be 0 or more, got -1"),
    ("PaddleJob", {"Worker": 5}, {"elasticPolicy": {"maxReplicas": 4}}, "spec.paddleReplicaSpecs.Worker.replicas"),
    (
        "PaddleJob",
        {"Worker": 3},
        {"elasticPolicy": {"minReplicas": 4, "maxReplicas": 2}},
        "spec.elasticPolicy.minReplicas: must be at most maxReplicas (2), got 4",
    ),
    (
        "TFJob",
        {"Worker": 1},
        {"cleanPodPolicy": "All", "runPolicy": {"cleanPodPolicy": "None"}},
        "spec.cleanPodPolicy: differs from spec.runPolicy.cleanPodPolicy",
    ),
    ("JAXJob", {"Worker": {"template": {"spec": {"containers": []}}}}, {}, "spec.jaxReplicaSpecs.Worker.template"),
]


@pytest.mark.parametrize(("kind", "sizes", "fields", "problem"), REFUSED)
def test_what_makes_no_job_is_refused_by_the_name_of_a_field(
    kind: str, sizes: Sizes, fields: Sizes, problem: str
) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parsed(kind, sizes, **fields)
    assert problem in str(refusal.value)


def test_jobs_handed_to_others_are_left_to_them() -> None:
    assert parsed("JAXJob", {"Worker": 1}, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}).managed_by
    assert not parsed("JAXJob", {"Worker": 1}, runPolicy={"managedBy": "kubeflow.org/training-operator"}).managed_by


@pytest.mark.parametrize(
    ("kind", "sizes", "fields", "ignored"),
    [
        (
            "PyTorchJob",
            {"Worker": 2},
            {"runPolicy": {"schedulingPolicy": {"minAvailable": 2, "queue": "night", "priorityClass": "high"}}},
            ["spec.runPolicy.schedulingPolicy.minAvailable", "spec.runPolicy.schedulingPolicy.queue"],
        ),
        (
            "PyTorchJob",
            {"Worker": 2},
            {"elasticPolicy": {"maxReplicas": 4, "metrics": [{"type": "Resource"}]}},
            ["spec.elasticPolicy.metrics"],
        ),
        ("TFJob", {"Worker": 2}, {"schedulingPolicy": {"scheduleTimeoutSeconds": 9}}, ["spec.schedulingPolicy"]),
        ("MPIJob", {"Launcher": 1}, {"runLauncherAsWorker": True}, ["spec.runLauncherAsWorker"]),
        ("TFJob", {"Worker": 2}, {"runPolicy": {"backoffLimit": 2}}, []),
    ],
)
def test_fields_without_effect_are_told(kind: str, sizes: dict[str, Any], fields: Any, ignored: list[str]) -> None:
    warnings = parsed(kind, sizes, **fields).warnings
    assert len(warnings) == len(ignored)
    for told, path in zip(warnings, ignored, strict=True):
        assert told.startswith(path)
        assert " is ignored: " in told
