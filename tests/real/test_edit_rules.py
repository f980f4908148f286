"""Edits of jobs of every kind on a real API server: it refuses at once what the operator would refuse, and no more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pliant.controllers.job import resource_of
from pliant.errors import Invalid
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import Resource
from pliant.runtime.clock import SystemClock
from tests.controlplane.installed import wait_served
from tests.depth import sample
from tests.frontends import elasticjob, kubeflow, paddle, paddle_batch, raw

pytestmark = pytest.mark.real

Object = dict[str, Any]


def template(image: str) -> Object:
    return {"spec": {"containers": [{"name": "main", "image": image, "command": ["true"]}]}}


def listed(*images: str) -> list[Object]:
    """The roles of a job whose spec is a list, in an order of their own and in capitals."""
    return [
        {"replicaType": name, "template": template(image)}
        for name, image in zip(("WORKER", "PS"), images, strict=False)
    ]


class Kind(NamedTuple):
    """A kind, a job of it, edits that are refused while it is active, with what is said, and edits that never are."""

    group: str
    raw: Object
    refused: dict[str, Object]
    allowed: list[Object]
    suspend: Object = {"spec": {"suspend": True}}  # noqa: RUF012
    end: Object = {"completionTime": "2026-01-01T12:00:00Z"}  # noqa: RUF012

    @property
    def resource(self) -> Resource:
        return resource_of(FRONTENDS[self.group, self.raw["kind"]])


def of_kubeflow(kind: str, role: str, *more: Object) -> Kind:
    field = kubeflow.KINDS[kind].kubeflow_kind.replica_specs_field
    return Kind(
        "kubeflow.org",
        kubeflow.raw_of(kind, {role: 1}),
        {
            "the template of a group cannot change": {"spec": {field: {role: {"template": template("other")}}}},
            "groups cannot be added or removed": {"spec": {field: {"Other": {"template": template("train")}}}},
            "managedBy cannot change": {"spec": {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}},
        },
        [
            {"spec": {field: {role: {"replicas": 3, "restartPolicy": "Never"}}}},
            {"spec": {"runPolicy": {"backoffLimit": 3, "managedBy": "kubeflow.org/training-operator"}}},
            {"spec": {field: {role: None, role.lower(): {"template": kubeflow.TEMPLATE}}}},
            *more,
        ],
        {"spec": {"runPolicy": {"suspend": True}}},
    )


KINDS = {
    "AITrainingJob": Kind(
        "elasticdeeplearning.ai",
        raw.raw_job({"worker": {"template": template("train")}}),
        {
            "the template of a group cannot change": {
                "spec": {"replicaSpecs": {"worker": {"template": template("other")}}}
            },
            "groups cannot be added or removed": {"spec": {"replicaSpecs": {"ps": {"template": template("train")}}}},
            "managedBy cannot change": {"spec": {"managedBy": "example.com/other"}},
        },
        [{"spec": {"replicaSpecs": {"worker": {"replicas": 3}}, "timeLimit": 7, "managedBy": "pliant"}}],
        end={"endTime": "2026-01-01T12:00:00Z"},
    ),
    **{
        name: of_kubeflow(name, role)
        for name, role in {
            "TFJob": "Worker",
            "MXJob": "Worker",
            "XGBoostJob": "Master",
            "PaddleJob": "Worker",
            "JAXJob": "Worker",
            "MPIJob": "Launcher",
        }.items()
    },
    "PyTorchJob": of_kubeflow(
        "PyTorchJob", "Worker", {"spec": {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}}
    ),
    "mpba TFJob": Kind(
        "mpba.fbk.eu",
        {
            "apiVersion": "mpba.fbk.eu/v1",
            "kind": "TFJob",
            "metadata": {"name": "listed"},
            "spec": listed("train", "train"),
        },
        {
            "the template of a group cannot change": {"spec": listed("other", "train")},
            "groups cannot be added or removed": {"spec": listed("train")},
            "managedBy cannot change": {"runPolicy": {"managedBy": "example.com/other"}},
        },
        [{"spec": [*reversed(listed("train", "train"))], "runPolicy": {"backoffLimit": 3}}],
        {"runPolicy": {"suspend": True}},
    ),
    "batch PaddleJob": Kind(
        "batch.paddlepaddle.org",
        paddle_batch.raw_pdj(worker=paddle_batch.role(2), heter=paddle_batch.role(1)),
        {
            "the template of a group cannot change": {"spec": {"heter": {"template": template("other")}}},
            "groups cannot be added or removed": {"spec": {"ps": paddle_batch.role(1)}},
            "managedBy cannot change": {"spec": {"managedBy": "example.com/other"}},
        },
        [{"spec": {"worker": {"replicas": 3, "limits": 5}, "cleanPodPolicy": "Never", "intranet": "Service"}}],
    ),
    "paddlepaddle.org PaddleJob": Kind(
        "paddlepaddle.org",
        paddle.raw_job({"image": "train"}),
        {
            "spec.image cannot change": {"spec": {"image": "other"}},
            "spec.trainer.entrypoint cannot change": {"spec": {"trainer": {"entrypoint": "python other.py"}}},
            "managedBy cannot change": {"spec": {"managedBy": "example.com/other"}},
        },
        [{"spec": {"trainer": {"max-instance": 5, "instances": 3}, "annotations": {"walltime": "60"}}}],
    ),
    "ElasticJob": Kind(
        "elastic.iml.github.io",
        elasticjob.raw_ej(),
        {"managedBy cannot change": {"spec": {"managedBy": "example.com/other"}}},
        [{"spec": {"replicaSpecs": {"worker": {"replicas": 3, "template": template("other")}}}}],
        {"spec": {"suspended": True}},
        end={"status": {"completionTime": "2026-01-01T12:00:00Z"}},
    ),
}


@pytest.fixture(scope="module")
def known(real_kubeconfig: Path, job_kinds: None) -> None:
    """The server knows our kinds."""
    for each in KINDS.values():
        wait_served(real_kubeconfig, f"{each.resource.plural}.{each.group}")


@pytest.fixture
async def client(real_kubeconfig: Path, known: None) -> AsyncIterator[KubeClient]:
    transport = create_transport(real_kubeconfig, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()


class Stored:
    """A job on the server that the operator has accepted."""

    def __init__(self, client: KubeClient, kind: Kind) -> None:
        self.client, self.kind = client, kind

    async def create(self, **status: Any) -> None:
        metadata = {"name": "edited", "namespace": "default"}
        await self.client.create(self.kind.resource, "default", {**self.kind.raw, "metadata": metadata})
        if status:
            await self.edit({"status": status}, "status")

    async def edit(self, patch: Object, subresource: str | None = None) -> None:
        await self.client.patch(self.kind.resource, "default", "edited", patch, subresource=subresource)

    async def delete(self) -> None:
        await self.client.delete(self.kind.resource, "default", "edited")


def with_suspension(change: Object, kind: Kind, *, suspend: bool) -> Object:
    """A change together with a suspension or a resumption."""
    text = json.dumps(kind.suspend).replace("true", json.dumps(suspend))
    merged = json.loads(text)
    for name, fields in change.items():
        merged[name] = _merge(merged[name], fields) if name in merged else fields
    return dict(merged)


def _merge(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    both = {name: _merge(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


@pytest.mark.parametrize("name", sample(KINDS, 4, "edit rules"))
async def test_an_active_job_keeps_what_the_operator_would_not_change(client: KubeClient, name: str) -> None:
    kind = KINDS[name]
    job = Stored(client, kind)
    await job.create(pliant={"phase": "Running"})
    for problem, change in kind.refused.items():
        with pytest.raises(Invalid, match=f"{problem} while the job is active: set .*suspend first"):
            await job.edit(change)
    for change in kind.allowed:
        await job.edit(change)
    await job.delete()


@pytest.mark.parametrize("name", sample(KINDS, 4, "edit rules while suspended"))
async def test_whoever_suspends_or_resumes_a_job_may_change_it_too(client: KubeClient, name: str) -> None:
    kind = KINDS[name]
    for change in kind.refused.values():
        job = Stored(client, kind)
        await job.create(pliant={"phase": "Running"})
        await job.edit(kind.suspend)
        await job.edit(with_suspension(change, kind, suspend=False))
        await job.delete()
        await job.create(pliant={"phase": "Running"})
        await job.edit(with_suspension(change, kind, suspend=True))
        await job.delete()


@pytest.mark.parametrize("name", sample(KINDS, 4, "edit rules at the end"))
async def test_a_job_that_has_not_begun_or_has_ended_may_be_edited(client: KubeClient, name: str) -> None:
    kind = KINDS[name]
    for status in ({}, {"pliant": {"phase": "Failed"}, **kind.end}):
        for change in kind.refused.values():
            job = Stored(client, kind)
            await job.create(**status)
            await job.edit(change)
            await job.delete()


async def test_bounds_that_exclude_each_other_are_refused(client: KubeClient) -> None:
    job = Stored(client, KINDS["PyTorchJob"])
    await job.create()
    with pytest.raises(Invalid, match=r"elasticPolicy\.minReplicas.*minReplicas must be at most maxReplicas"):
        await job.edit({"spec": {"elasticPolicy": {"minReplicas": 5, "maxReplicas": 1}}})
    await job.delete()
