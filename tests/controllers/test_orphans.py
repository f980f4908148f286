"""Pods whose job is gone, where the garbage collector does not see to them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.frontends.frontend import required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, NODES, PODS
from tests.controllers.elastic import foreign_pod
from tests.controllers.operated import operating
from tests.faults.rig import JOBS
from tests.virtual_time import VirtualClock, on_virtual_time, passing


@asynccontextmanager
async def operated() -> AsyncIterator[KubeClient]:
    """An API server whose garbage collector is down, with a node and an operator."""
    clock = VirtualClock()
    api = ApiServer(Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0))
    await api.initialize_from_store()
    client = KubeClient(InProcessTransport(api))
    for crd in (AITrainingJobFrontend().crd(), *required_crds(ElasticJobFrontend())):
        await client.create(CRDS, None, crd)
    await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    async with operating(Operator(client, clock)):
        yield client


def orphan(name: str, **meta: Any) -> dict[str, Any]:
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": "late",
        "uid": "11111111-1111-1111-1111-111111111111",
        "controller": True,
    }
    labels = {"app.kubernetes.io/managed-by": "pliant"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner], **meta},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "train"}]},
    }


async def names(client: KubeClient) -> list[str]:
    pods = (await client.list(PODS, "default")).items
    return sorted(pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"])


@on_virtual_time
async def test_pods_whose_job_is_gone_are_deleted_after_a_while() -> None:
    async with operated() as client:
        await client.create(PODS, "default", orphan("late-worker-0"))
        await passing(timedelta(seconds=30))
        assert await names(client) == ["late-worker-0"]
        await passing(timedelta(minutes=2))
        assert await names(client) == []


@on_virtual_time
async def test_pods_that_a_master_made_go_like_those_of_ours() -> None:
    async with operated() as client:
        gone = {"metadata": {"name": "late", "uid": "11111111-1111-1111-1111-111111111111"}}
        await client.create(PODS, "default", foreign_pod(gone, 0))
        await passing(timedelta(minutes=2))
        assert await names(client) == []


@on_virtual_time
async def test_an_orphan_that_cannot_end_on_a_dead_node_is_let_go() -> None:
    async with operated() as client:
        await client.create(PODS, "default", orphan("late-worker-0"))
        await client.delete(PODS, "default", "late-worker-0")
        await passing(timedelta(minutes=2))
        assert len((await client.list(PODS, "default")).items) == 1
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await client.patch(NODES, None, "n", {"status": {"conditions": [condition]}}, subresource="status")
        await passing(timedelta(minutes=1))
        assert (await client.list(PODS, "default")).items == []
