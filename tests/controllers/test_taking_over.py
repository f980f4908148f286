"""Jobs that another operator began: what runs goes on, what ended stays ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.kubeflow.mpi import MPIJobFrontend
from pliant.frontends.kubeflow.pytorch import PyTorchJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, EVENTS, NODES, PODS, SERVICES, Resource
from tests.builders import KEY_SECRET
from tests.scenarios.messages import message_of, text_of
from tests.virtual_time import VirtualClock, on_virtual_time, passing

Object = dict[str, Any]

TORCH = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
MPI = Resource("kubeflow.org", "v1", "mpijobs", "MPIJob")
TEMPLATE = {"spec": {"containers": [{"name": "pytorch", "image": "torch"}]}}
BEGUN = "2026-01-01T10:00:00Z"


@asynccontextmanager
async def a_cluster() -> AsyncIterator[tuple[KubeClient, VirtualClock]]:
    """An API server with definitions and a node, and nobody at work yet."""
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        for frontend in (PyTorchJobFrontend(), MPIJobFrontend()):
            await client.create(CRDS, None, frontend.crd())
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somewhere"}}
        await client.create(NODES, None, node)
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(NODES, None, "somewhere", {"status": ready}, subresource="status")
        yield client, clock


@asynccontextmanager
async def operated(client: KubeClient, clock: VirtualClock) -> AsyncIterator[None]:
    """Our operator at work."""
    running = asyncio.create_task(Operator(client, clock, key_secret=KEY_SECRET).run())
    await passing(timedelta(seconds=5))
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def job_of(client: KubeClient, kind: Resource, groups: Object, condition: str = "Running") -> Object:
    """A job as another operator leaves it."""
    field = {TORCH: "pytorchReplicaSpecs", MPI: "mpiReplicaSpecs"}[kind]
    specs = {name: {"replicas": size, "template": TEMPLATE} for name, size in groups.items()}
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {field: specs, "runPolicy": {"cleanPodPolicy": "None"}},
    }
    made = await client.create(kind, "default", body)
    status = {"startTime": BEGUN, "conditions": [{"type": condition, "status": "True", "message": "so it is"}]}
    await client.patch(kind, "default", "demo", {"status": status}, subresource="status")
    return made


async def member_of(client: KubeClient, job: Object, name: str, *, phase: str = "Running") -> str:
    """A pod and a service that another operator made; the uid of the pod."""
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": "demo", "uid": job["metadata"]["uid"]}
    *_, group, index = f"{name}-0".split("-")[:3] if name.endswith("launcher") else name.split("-")
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {
            "training.kubeflow.org/job-name": "demo",
            "training.kubeflow.org/replica-type": group,
            "training.kubeflow.org/replica-index": index,
        },
        "ownerReferences": [{**owner, "controller": True}],
    }
    spec: Object = {**TEMPLATE["spec"], "nodeName": "somewhere"}
    pod = await client.create(PODS, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await client.patch(PODS, "default", name, {"status": {"phase": phase}}, subresource="status")
    selector = {"clusterIP": "None", "selector": meta["labels"]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": selector}
    await client.create(SERVICES, "default", service)
    return str(pod["metadata"]["uid"])


async def uids(client: KubeClient, resource: Resource) -> dict[str, str]:
    listing = await client.list(resource, "default")
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in listing.items}


def current(job: Object) -> Object:
    return dict(job["status"]["conditions"][-1])


@on_virtual_time
async def test_members_that_run_go_on_and_missing_ones_are_made() -> None:
    async with a_cluster() as (client, clock):
        job = await job_of(client, TORCH, {"Master": 1, "Worker": 2})
        before = {name: await member_of(client, job, name) for name in ("demo-master-0", "demo-worker-0")}
        services = await uids(client, SERVICES)
        async with operated(client, clock):
            after = await uids(client, PODS)
            assert {name: after[name] for name in before} == before
            assert set(after) - set(before) == {"demo-worker-1"}
            assert (await uids(client, SERVICES)).items() >= services.items()
            pod = await client.get(PODS, "default", "demo-worker-0")
            assert (
                pod["metadata"]["labels"].items()
                >= {
                    "app.kubernetes.io/managed-by": "pliant",
                    "TrainingJobReplicaName": "worker",
                    "RestartCount": "0",
                    "training.kubeflow.org/replica-type": "worker",
                }.items()
            )


@on_virtual_time
async def test_the_end_of_a_member_taken_over_is_the_end_of_the_job() -> None:
    async with a_cluster() as (client, clock):
        job = await job_of(client, TORCH, {"Master": 1})
        await member_of(client, job, "demo-master-0")
        async with operated(client, clock):
            told = await client.get(TORCH, "default", "demo")
            assert (current(told)["type"], told["status"]["startTime"]) == ("Running", BEGUN)
            assert told["status"]["pliant"]["timeline"][0]["message"] == {"reason": "StartedByOtherOperator"}
            done = {"status": {"phase": "Succeeded"}}
            await client.patch(PODS, "default", "demo-master-0", done, subresource="status")
            await passing(timedelta(seconds=5))
            assert current(await client.get(TORCH, "default", "demo"))["type"] == "Succeeded"


@on_virtual_time
async def test_the_launcher_of_another_operator_is_not_started_a_second_time() -> None:
    async with a_cluster() as (client, clock):
        job = await job_of(client, MPI, {"Launcher": 1, "Worker": 1})
        before = {name: await member_of(client, job, name) for name in ("demo-launcher", "demo-worker-0")}
        async with operated(client, clock):
            assert await uids(client, PODS) == before


@pytest.mark.parametrize("condition", ["Succeeded", "Failed"])
@on_virtual_time
async def test_what_another_operator_finished_stays_finished(condition: str) -> None:
    async with a_cluster() as (client, clock):
        await job_of(client, TORCH, {"Master": 1, "Worker": 2}, condition)
        async with operated(client, clock):
            assert await uids(client, PODS) == {}
            assert current(await client.get(TORCH, "default", "demo"))["type"] == condition


@on_virtual_time
async def test_a_member_that_is_leaving_is_replaced_when_it_is_gone() -> None:
    async with a_cluster() as (client, clock):
        job = await job_of(client, TORCH, {"Master": 1})
        before = await member_of(client, job, "demo-master-0")
        await client.delete(PODS, "default", "demo-master-0")
        async with operated(client, clock):
            assert await uids(client, PODS) == {"demo-master-0": before}
            await client.delete(PODS, "default", "demo-master-0", grace_period_seconds=0)
            await passing(timedelta(seconds=5))
            assert (await uids(client, PODS))["demo-master-0"] != before
            assert current(await client.get(TORCH, "default", "demo"))["type"] != "Failed"


@on_virtual_time
async def test_a_definition_that_lets_nothing_be_remembered_is_told() -> None:
    async with a_cluster() as (client, clock):
        crd = await client.get(CRDS, None, "pytorchjobs.kubeflow.org")
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["x-kubernetes-validations"]  # a definition of others has no rules about this field
        del schema["properties"]["status"]["properties"]["pliant"]
        await client.replace(CRDS, None, "pytorchjobs.kubeflow.org", crd)
        job = await job_of(client, TORCH, {"Master": 1})
        before = await member_of(client, job, "demo-master-0")
        async with operated(client, clock):
            events = (await client.list(EVENTS, "default")).items
            [told] = {text_of(message_of(each)) for each in events if each["reason"] == "StatusPruned"}
            assert "pliant crds --kinds pytorchjobs.kubeflow.org | kubectl apply -f -" in told
            assert await uids(client, PODS) == {"demo-master-0": before}
            await client.replace(CRDS, None, "pytorchjobs.kubeflow.org", await _mended(client))
            await passing(timedelta(minutes=2))
            assert current(await client.get(TORCH, "default", "demo"))["type"] == "Running"
            assert (await client.get(TORCH, "default", "demo"))["status"]["pliant"]


async def _mended(client: KubeClient) -> Object:
    present = await client.get(CRDS, None, "pytorchjobs.kubeflow.org")
    return {**present, "spec": PyTorchJobFrontend().crd()["spec"]}
