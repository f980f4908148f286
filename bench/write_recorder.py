"""Records the write requests with which the operator starts one job on the embedded server."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from bench.fake_kubelet import FakeKubelet
from bench.recorded_writes import PLACEHOLDER_NAME, PLACEHOLDER_UID, RecordedWrite
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


def job_manifest(name: str) -> dict[str, Any]:
    """Return the manifest of a job with four workers, each with a service."""
    container = {
        "name": "aitj-main",
        "image": "registry.example.org/team-a/trainer:1",
        "command": ["python", "-m", "train"],
        "ports": [{"name": "aitj-port", "containerPort": 29500}],
    }
    # No scheduler has this name, so that only the fake kubelet changes the pods.
    template = {"spec": {"schedulerName": "fake-kubelet", "containers": [container]}}
    worker = {"replicas": PODS_PER_JOB, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"worker": worker}},
    }


class RecordingTransport(Transport):
    """Forwards all requests and records those that write."""

    def __init__(self, inner: Transport) -> None:
        self.writes: list[Request] = []
        self._inner = inner

    async def send(self, request: Request) -> Reply:
        """Send a request and return the complete reply."""
        if request.method != "GET":
            self.writes.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Open a stream, which ends when the context exits."""
        return self._inner.stream(request)

    async def aclose(self) -> None:
        """Do nothing: the caller owns the server."""


async def record_job_writes() -> list[RecordedWrite]:
    """Run an operator until one job is Running, and return the writes it sent."""
    clock = SystemClock()
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), clock) as api:
        client, recorder = KubeClient(InProcessTransport(api)), RecordingTransport(InProcessTransport(api))
        await install_crds(client)
        operator = Operator(KubeClient(recorder), clock)
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(operator.run()), tasks.create_task(FakeKubelet(client).run())]
            await operator.wait_ready()
            job = await client.create(JOBS, NAMESPACE, job_manifest(PLACEHOLDER_NAME))
            await _wait_running(client, job["metadata"]["resourceVersion"])
            for task in background:
                task.cancel()
    return [_make_template(request, job["metadata"]["uid"]) for request in recorder.writes]


async def _wait_running(client: KubeClient, resource_version: str) -> None:
    async with aclosing(client.watch(JOBS, NAMESPACE, resource_version=resource_version)) as events:
        async for event in events:
            if event.object and (event.object.get("status") or {}).get("phase") == "Running":
                return


def _make_template(request: Request, uid: str) -> RecordedWrite:
    """Make a request usable for any job: replace the uid and omit the resourceVersion."""
    body = json.loads(request.body)
    body["metadata"].pop("resourceVersion", None)
    return RecordedWrite(
        request.method, request.path, request.content_type, json.dumps(body).replace(uid, PLACEHOLDER_UID)
    )


def dump_writes(writes: list[RecordedWrite]) -> str:
    """Serialize writes for `read_writes`."""
    return json.dumps(writes)
