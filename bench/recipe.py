"""What the operator writes to bring up one job, recorded on the embedded server."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from bench.door import NAME, UID, Write
from bench.standin import StandIn
from pliant.cli.cluster.apply import install_crds
from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport
from pliant.runtime.clock import SystemClock

JOBS = resource_of(AITrainingJobFrontend())
NAMESPACE = "default"
PODS_PER_JOB = 4


def manifest(name: str) -> dict[str, Any]:
    """A job of four workers who find each other by name."""
    container = {
        "name": "aitj-main",
        "image": "registry.example.org/team-a/trainer:1",
        "command": ["python", "-m", "train"],
        "ports": [{"name": "aitj-port", "containerPort": 29500}],
    }
    # No scheduler goes by that name: pods are left to the stand-in.
    template = {"spec": {"schedulerName": "stand-in", "containers": [container]}}
    worker = {"replicas": PODS_PER_JOB, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"worker": worker}},
    }


class Recorder(Transport):
    """Passes everything on, and remembers what was written."""

    def __init__(self, inner: Transport) -> None:
        self.written: list[Request] = []
        self._inner = inner

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        if request.method != "GET":
            self.written.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Open a stream; leaving the context ends it."""
        return self._inner.stream(request)

    async def aclose(self) -> None:
        """Leave the server to its owner."""


async def record() -> list[Write]:
    """Let an operator bring up one job, and tell what it wrote."""
    clock = SystemClock()
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), clock) as api:
        client, recorder = KubeClient(InProcessTransport(api)), Recorder(InProcessTransport(api))
        await install_crds(client)
        operator = Operator(KubeClient(recorder), clock)
        async with asyncio.TaskGroup() as tasks:
            at_work = [tasks.create_task(operator.run()), tasks.create_task(StandIn(client).run())]
            await operator.wait_ready()
            job = await client.create(JOBS, NAMESPACE, manifest(NAME))
            await _running(client, job["metadata"]["resourceVersion"])
            for each in at_work:
                each.cancel()
    return [_generalised(request, job["metadata"]["uid"]) for request in recorder.written]


async def _running(client: KubeClient, since: str) -> None:
    async with aclosing(client.watch(JOBS, NAMESPACE, resource_version=since)) as changes:
        async for change in changes:
            if change.object and (change.object.get("status") or {}).get("phase") == "Running":
                return


def _generalised(request: Request, uid: str) -> Write:
    """A request that fits any job: a version to hold on to is the one thing that nobody knows beforehand."""
    body = json.loads(request.body)
    body["metadata"].pop("resourceVersion", None)
    return Write(request.method, request.path, request.content_type, json.dumps(body).replace(uid, UID))


def save(writes: list[Write]) -> str:
    """The writes in the form that `read_recipe` understands."""
    return json.dumps(writes)
