"""What the pods of a PaddleJob of paddlepaddle.org run, read and mount."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.model.job import EndPolicy
from tests.frontends.paddle import container_of, group_of, parsed, pod_of, variables_of


def test_both_roles_run_the_entrypoint_in_the_workspace() -> None:
    job = parsed(trainer={"workspace": "/home/job-1/"}, pserver={"min-instance": 1})
    script = [
        'export PYTHONPATH="$TRAINER_PACKAGE${PYTHONPATH:+:$PYTHONPATH}"',
        'cd "$TRAINER_PACKAGE" || exit 1',
        "exec python train.py",
    ]
    assert container_of(job)["command"] == ["sh", "-c", "\n".join(script)]
    assert container_of(job, "pserver")["command"] == container_of(job)["command"]
    assert variables_of(job)["TRAINER_PACKAGE"] == "/home/job-1/"


def test_the_package_is_another_word_for_the_workspace() -> None:
    assert variables_of(parsed({"trainer_package": "/pkg"}))["TRAINER_PACKAGE"] == "/pkg"


@pytest.mark.parametrize(
    ("entry", "run"),
    [
        (" python train.py --lr 0.1", "exec python train.py --lr 0.1"),
        ("python a.py && python b.py", "python a.py && python b.py"),
        ("LR=1 python a.py", "LR=1 python a.py"),
        ("cd x", "cd x"),
        ("for i in 1 2; do echo $i; done", "for i in 1 2; do echo $i; done"),
    ],
)
def test_a_single_program_takes_the_place_of_the_shell(entry: str, run: str) -> None:
    assert container_of(parsed(trainer={"entrypoint": entry}))["command"] == ["sh", "-c", run]


@pytest.mark.parametrize(
    ("tolerant", "trainer", "pserver"),
    [
        (None, ["paddle_k8s", "start_trainer", "fluid"], ["paddle_k8s", "start_pserver"]),
        (True, ["paddle_k8s", "start_new_trainer"], ["paddle_k8s", "start_new_pserver"]),
    ],
)
def test_images_with_a_script_of_their_own_run_it(
    tolerant: bool | None, trainer: list[str], pserver: list[str]
) -> None:
    job = parsed({"fault_tolerant": tolerant}, pserver={"min-instance": 1}, annotations={"pliant/discovery": "image"})
    assert container_of(job)["command"] == trainer
    assert container_of(job, "pserver")["command"] == pserver
    [address] = [each for each in container_of(job)["env"] if each["name"] == "POD_IP"]
    assert address["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_a_job_that_tolerates_faults_has_a_master_and_its_etcd() -> None:
    job = parsed({"fault_tolerant": "true", "master": {"resources": {"limits": {"cpu": 1}}}}, trainer={"max": 3})
    assert job.is_fault_tolerant
    master, etcd = pod_of(job, "master")["containers"]
    assert (master["name"], master["command"]) == ("master", ["paddle_k8s", "start_master"])
    assert master["resources"] == {"limits": {"cpu": 1}}
    assert (etcd["name"], etcd["command"][0]) == ("etcd", "etcd")
    assert group_of(job, "master").main_containers == {"master"}
    assert group_of(job, "master").complete_policy is EndPolicy.NONE
    assert container_of(job)["command"] == ["paddle_k8s", "start_new_trainer"]


def test_a_tolerant_job_whose_members_are_told_by_name_needs_no_master() -> None:
    job = parsed({"fault_tolerant": True}, annotations={"pliant/discovery": "names"})
    assert [group.name for group in job.groups] == ["trainer"]
    assert container_of(job)["command"] == ["sh", "-c", "exec python train.py"]


def test_variables_are_those_that_images_read() -> None:
    resources = {"requests": {"cpu": "1200m"}}
    job = parsed(
        {"passes": 3}, trainer={"workspace": "/w", "resources": resources, "envs": {"LR": 0.1, "TOPOLOGY": "t"}}
    )
    found = variables_of(job)
    assert (
        found.items()
        >= {
            "PADDLE_JOB_NAME": "fit",
            "ENTRY": "python train.py",
            "PADDLE_INIT_PORT": "7164",
            "PADDLE_INIT_PORTS_NUM": "1",
            "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
            "PADDLE_INIT_TRAINER_COUNT": "2",
            "PADDLE_INIT_NUM_PASSES": "3",
            "PADDLE_INIT_USE_GPU": "0",
            "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
            "LR": "0.1",
            "TOPOLOGY": "t",
        }.items()
    )
    assert variables_of(parsed({"passes": 3}, trainer={"passes": "7"}))["PADDLE_INIT_NUM_PASSES"] == "7"


@pytest.mark.parametrize(
    "trainer",
    [
        {"trainer_gpu": "2"},
        {"resources": {"limits": {"alpha.kubernetes.io/nvidia-gpu": 2}}},
        {"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}},
        {"resources": {"requests": {"alpha.kubernetes.io/nvidia-gpu": "2"}}},
    ],
)
def test_gpus_have_one_name_however_they_are_asked_for(trainer: dict[str, Any]) -> None:
    job = parsed(trainer=trainer)
    assert str(container_of(job)["resources"]["limits"]["nvidia.com/gpu"]) == "2"
    assert "nvidia.com/gpu" not in container_of(job)["resources"].get("requests", {})
    assert variables_of(job)["PADDLE_INIT_USE_GPU"] == "1"
    assert variables_of(job)["PADDLE_INIT_TRAINER_COUNT"] == "2"


def test_no_gpu_is_asked_for_by_a_zero() -> None:
    job = parsed(trainer={"trainer_gpu": 0, "resources": {"limits": {"alpha.kubernetes.io/nvidia-gpu": 0, "cpu": 1}}})
    assert container_of(job)["resources"] == {"limits": {"cpu": 1}}


def test_pods_are_placed_and_fitted_out_as_asked() -> None:
    job = parsed(
        {
            "schedulerName": "kube-batch",
            "podGroupName": "gang",
            "NodeSelector": {"disk": "ssd", "zone": 3},
            "imagePullSecrets": {"name": "regcred"},
            "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
            "VolumeMounts": {"name": "data", "mountPath": "/data"},
        },
        pserver={"min-instance": 1, "tolerations": [{"key": "ps"}], "node_selector": {"zone": "4"}},
        trainer={
            "grace_period_seconds": 5,
            "pre_stop_cmd": "sync",
            "tolerations": {"key": "gpu", "operator": "Exists"},
            "liveness_probe": {"exec": {"command": ["true"]}},
        },
    )
    pod, server = pod_of(job), pod_of(job, "pserver")
    assert (pod["schedulerName"], pod["terminationGracePeriodSeconds"]) == ("kube-batch", 5)
    assert group_of(job).template["metadata"]["annotations"] == {"scheduling.k8s.io/group-name": "gang"}
    assert (pod["nodeSelector"], server["nodeSelector"]["zone"]) == ({"disk": "ssd", "zone": "3"}, "4")
    assert pod["imagePullSecrets"] == [{"name": "regcred"}]
    assert (pod["tolerations"], server["tolerations"]) == ([{"key": "gpu", "operator": "Exists"}], [{"key": "ps"}])
    assert container_of(job)["lifecycle"] == {"preStop": {"exec": {"command": ["sh", "-c", "sync"]}}}
    assert container_of(job)["livenessProbe"] == {"exec": {"command": ["true"]}}
    for role in ("trainer", "pserver"):
        assert container_of(job, role)["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]


def test_a_volume_is_mounted_where_the_job_says() -> None:
    job = parsed({"mountPath": "/home/work/"}, trainer={"workspace": "/home/job-1"}, pserver={"min-instance": 1})
    for role in ("trainer", "pserver"):
        assert pod_of(job, role)["volumes"] == [{"name": "job-workspace", "emptyDir": {}}]
        assert container_of(job, role)["volumeMounts"] == [{"name": "job-workspace", "mountPath": "/home/work/"}]


def test_a_volume_of_that_name_takes_its_place() -> None:
    claim = {"name": "job-workspace", "persistentVolumeClaim": {"claimName": "work"}}
    job = parsed({"mountpath": "/home/work", "volumes": [claim]}, trainer={"workspace": "/home/work/job"})
    assert pod_of(job)["volumes"] == [claim]
    assert container_of(job)["volumeMounts"] == [{"name": "job-workspace", "mountPath": "/home/work"}]


def test_nothing_empty_hides_the_program_or_a_volume_of_theirs() -> None:
    assert "volumes" not in pod_of(parsed({"mountPath": "/home/work"}, trainer={"workspace": "/home/work/job"}))
    theirs = {"volumes": [{"name": "d", "emptyDir": {}}], "VolumeMounts": [{"name": "d", "mountPath": "/x/"}]}
    assert container_of(parsed({"mountPath": "/x", **theirs}))["volumeMounts"] == theirs["VolumeMounts"]
