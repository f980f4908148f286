"""ElasticJobs that DLRover's own operator began: its masters and their members go on."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.frontends.frontend import required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, PODS, SERVICES, Resource
from tests.controllers.elastic import JOBS, MASTER, SPACE, Object, foreign_pod
from tests.controllers.test_taking_over import operated
from tests.virtual_time import VirtualClock, on_virtual_time, passing

TEMPLATE: Object = {"spec": {"containers": [{"name": "main", "image": "x", "command": ["true"]}]}}
BEGUN = "2026-01-01T10:00:00Z"
MARKS = {
    "app.kubernetes.io/name": "elasticjob",
    "elasticjob.dlrover/name": "demo",
    "elasticjob.dlrover/replica-type": "dlrover-master",
}


@asynccontextmanager
async def a_cluster() -> AsyncIterator[tuple[KubeClient, VirtualClock]]:
    """An API server that knows ElasticJobs, and nobody at work yet."""
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        for crd in required_crds(ElasticJobFrontend()):
            await client.create(CRDS, None, crd)
        yield client, clock


async def left_behind(client: KubeClient, phase: str = "Running") -> dict[str, str]:
    """A job, its master, the master's service and two workers as DLRover 0.5 and later leave them; pods by uid."""
    replicas = {"dlrover-master": {"template": TEMPLATE}, "worker": {"replicas": 2, "template": TEMPLATE}}
    body = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "demo"},
        "spec": {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": replicas},
    }
    job = await client.create(JOBS, SPACE, body)
    inner = {"conditions": [], "replicaStatuses": {"dlrover-master": {"active": 1}}, "startTime": BEGUN}
    status = {"phase": phase, "status": inner}
    await client.patch(JOBS, SPACE, "demo", {"status": status}, subresource="status")
    if phase != "Running":
        return {}
    await client.create(SERVICES, SPACE, of_master(job, "Service", {"selector": MARKS, "ports": [{"port": 50001}]}))
    master = of_master(job, "Pod", TEMPLATE["spec"])
    master["metadata"]["name"] += "-0"
    for pod in (master, foreign_pod(job, 0), foreign_pod(job, 1)):
        made = await client.create(PODS, SPACE, pod)
        name = made["metadata"]["name"]
        await client.patch(PODS, SPACE, name, {"status": {"phase": "Running"}}, subresource="status")
    return await uids(client, PODS)


def of_master(job: Object, kind: str, spec: Object) -> Object:
    """What the other operator makes for a master."""
    owner = {**foreign_pod(job, 0)["metadata"]["ownerReferences"][0], "controller": True}
    meta = {"name": MASTER, "labels": {**MARKS, "elasticjob.dlrover/replica-index": "0"}, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}


async def uids(client: KubeClient, resource: Resource) -> dict[str, str]:
    listing = await client.list(resource, SPACE)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in listing.items}


@on_virtual_time
async def test_the_master_and_its_workers_go_on_and_keep_their_names() -> None:
    async with a_cluster() as (client, clock):
        before = await left_behind(client)
        services = await uids(client, SERVICES)
        async with operated(client, clock):
            assert await uids(client, PODS) == before
            assert (await uids(client, SERVICES)).items() >= services.items()
            status = (await client.get(JOBS, SPACE, "demo"))["status"]
            assert (status["phase"], status["workers"]) == ("Running", "2/2")
            assert status["status"]["startTime"] == BEGUN


@on_virtual_time
async def test_the_end_of_such_a_master_is_the_end_of_the_job_and_nothing_is_left() -> None:
    async with a_cluster() as (client, clock):
        await left_behind(client)
        async with operated(client, clock):
            done = {"status": {"phase": "Succeeded"}}
            await client.patch(PODS, SPACE, f"{MASTER}-0", done, subresource="status")
            await passing(timedelta(seconds=5))
            assert (await client.get(JOBS, SPACE, "demo"))["status"]["phase"] == "Succeeded"
            leaving = (await client.list(PODS, SPACE)).items
            assert all("deletionTimestamp" in pod["metadata"] for pod in leaving)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@on_virtual_time
async def test_what_has_ended_stays_so(phase: str) -> None:
    async with a_cluster() as (client, clock):
        await left_behind(client, phase)
        async with operated(client, clock):
            assert await uids(client, PODS) == {}
            assert (await client.get(JOBS, SPACE, "demo"))["status"]["phase"] == phase
