"""A pod template that no API server takes is refused by the name of its field, whatever the kind."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends import FRONTENDS
from pliant.frontends.spec.template_schema import check_template_types
from tests.builders import parse_stored
from tests.frontends import elasticjob, kubeflow, paddle, paddle_batch, raw

Raw = dict[str, Any]
TEMPLATE: Raw = {"spec": {"containers": [{"name": "main", "image": "train", "command": ["true"]}]}}

MALFORMED: dict[str, tuple[Raw, str]] = {
    "command": ({"command": "mpirun x"}, 'command: must be a list, got "mpirun x"; write ["sh","-c","mpirun x"]'),
    "args": ({"args": "--steps 7"}, 'args: must be a list, got "--steps 7"; write ["--steps","7"]'),
    "argument": ({"args": ["--steps", 7]}, 'args[1]: must be a string, got 7; write "7"'),
    "variables": ({"env": {"A": "b"}}, 'env: must be a list, got {"A":"b"}'),
    "variable": ({"env": [{"name": "A", "value": 3}]}, 'env[0].value: must be a string, got 3; write "3"'),
    "ports": ({"ports": [{"containerPort": "http"}]}, 'ports[0].containerPort: must be an integer, got "http"'),
    "port": ({"ports": [{"name": "http"}]}, "ports[0].containerPort: is required"),
    "resources": ({"resources": ["cpu"]}, 'resources: must be a mapping, got ["cpu"]'),
    "limit": (
        {"resources": {"limits": {"cpu": "two"}}},
        "resources.limits.cpu: must be a quantity such as 500m or 4Gi",
    ),
    "tty": ({"tty": "yes"}, 'tty: must be true or false, got "yes"'),
    "probe": ({"livenessProbe": {"httpGet": {"port": 1.5}}}, "livenessProbe.httpGet.port: must be an integer or"),
    "mount": ({"volumeMounts": [{"name": "data"}]}, "volumeMounts[0].mountPath: is required"),
}


def listed(kind: str) -> Raw:
    types = ("scheduler" if kind == "MXJob" else "ps", "worker")
    spec = [{"replicaType": each, "template": copy.deepcopy(TEMPLATE)} for each in types]
    metadata = {"name": "listed", "uid": "u"}
    return {"apiVersion": "mpba.fbk.eu/v1", "kind": kind, "metadata": metadata, "spec": spec}


JOBS: dict[tuple[str, str], tuple[Raw, str]] = {
    ("elasticdeeplearning.ai", "AITrainingJob"): (
        raw.raw_job({"worker": {"template": TEMPLATE}}),
        "spec.replicaSpecs.worker",
    ),
    **{
        ("kubeflow.org", kind): (
            kubeflow.raw_of(kind, {role: 1}),
            f"spec.{end.kubeflow_kind.replica_specs_field}.{role}",
        )
        for kind, end in kubeflow.KINDS.items()
        for role in [end.kubeflow_kind.required_role or "Worker"]
    },
    ("mpba.fbk.eu", "MXJob"): (listed("MXJob"), "spec[1]"),
    ("mpba.fbk.eu", "TFJob"): (listed("TFJob"), "spec[1]"),
    ("batch.paddlepaddle.org", "PaddleJob"): (
        paddle_batch.raw_pdj(worker=paddle_batch.role(2), heter=paddle_batch.role(1)),
        "spec.heter",
    ),
    ("elastic.iml.github.io", "ElasticJob"): (elasticjob.raw_ej(), "spec.replicaSpecs.worker"),
}


def container_at(raw: Raw, path: str) -> Raw:
    """The first container of the group at a path."""
    found: Any = raw
    for step in path.replace("[", ".").replace("]", "").split("."):
        found = found[int(step)] if isinstance(found, list) else found[step]
    container: Raw = found["template"]["spec"]["containers"][0]
    return container


def test_every_kind_with_templates_is_tried() -> None:
    assert {key for key in FRONTENDS if key[0] != "paddlepaddle.org"} == JOBS.keys()


@pytest.mark.parametrize("case", MALFORMED.values(), ids=list(MALFORMED))
@pytest.mark.parametrize("key", JOBS, ids=lambda key: f"{key[1]}.{key[0]}")
def test_a_malformed_container_is_refused_by_field_and_told_how_to_write_it(
    key: tuple[str, str], case: tuple[Raw, str]
) -> None:
    job, path = copy.deepcopy(JOBS[key])
    container_at(job, path).update(case[0])
    with pytest.raises(InvalidSpec) as refused:
        parse_stored(FRONTENDS[key], job)
    assert str(refused.value).startswith(f"{path}.template.spec.containers[0].{case[1]}")


@pytest.mark.parametrize(
    ("role", "job", "problem"),
    [
        ({"resources": {"limits": {"cpu": "two"}}}, {}, "spec.trainer.resources.limits.cpu: must be a quantity"),
        ({"envs": [{"name": "A", "valueFrom": "B"}]}, {}, 'spec.trainer.envs: must be a mapping, got "B"'),
        ({"tolerations": [{"key": 5}]}, {}, 'spec.trainer.tolerations[0].key: must be a string, got 5; write "5"'),
        ({"liveness_probe": {"exec": 5}}, {}, "spec.trainer.liveness_probe.exec: must be a mapping, got 5"),
        ({"readiness_probe": {"httpGet": {}}}, {}, "spec.trainer.readiness_probe.httpGet.port: is required"),
        (
            {"imagePullSecrets": [{"name": 5}]},
            {"imagePullSecrets": [{}]},
            "spec.trainer.imagePullSecrets[0].name: must",
        ),
        ({}, {"imagePullSecrets": [{"name": 5}]}, "spec.imagePullSecrets[0].name: must be a string"),
        ({}, {"volumes": [{"name": "a", "emptyDir": 5}]}, "spec.volumes[0].emptyDir: must be a mapping, got 5"),
        (
            {},
            {"VolumeMounts": [{"name": "a", "mountPath": "/a", "readOnly": "no"}]},
            "spec.VolumeMounts[0].readOnly: must be true or false",
        ),
    ],
)
def test_a_role_without_a_template_is_refused_by_its_own_field(role: Raw, job: Raw, problem: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        paddle.parsed(job, trainer=role)
    assert str(refused.value).startswith(problem)


def test_what_servers_take_is_taken() -> None:
    container = {
        "name": "main",
        "command": None,
        "args": ["a", None],
        "resources": {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}},
        "ports": [{"containerPort": 80.0}],
        "readinessProbe": {"httpGet": {"port": "http"}},
        "unheardOf": 5,
    }
    metadata = {"creationTimestamp": None, "labels": {"a": "b"}}
    check_template_types({"metadata": metadata, "spec": {"containers": [container], "nodeSelector": {"a": None}}}, "x")
