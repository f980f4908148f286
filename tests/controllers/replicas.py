"""Replicas of a job that ask the operator for its membership, on virtual time and over HTTP."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from pliant.controllers.membership.job_objects import CachedJobObjects
from pliant.controllers.progress_reports import ProgressReceiver
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frameworks.progress_reporting import report_path
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.status.engine_state import dump_state
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import CRDS, PODS
from pliant.kube.transport.base import Reply, Request, StreamReply
from pliant.model.departures import Departure, DepartureReason, PublishedMembership
from pliant.model.job_keys import KeyPurpose, derive_job_key, key_scope
from pliant.model.labels import ACKNOWLEDGED_CHECKPOINT_ANNOTATION
from pliant.model.state import EngineState, JobPhase
from pliant.runtime.clock import Clock
from pliant.runtime.http_server import HttpRequest, HttpResponse
from tests.builders import NOON
from tests.faults.rig import JOBS
from tests.frontends.raw import raw_group, raw_job
from tests.virtual_time import VirtualClock

SECRET = b"known to operators"
SPACE = "default"


class Answer(NamedTuple):
    status: HTTPStatus
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class CountingTransport(InProcessTransport):
    """Counts the requests by method and resource."""

    def __init__(self, api: ApiServer) -> None:
        super().__init__(api)
        self.requests: list[str] = []
        self.before_patch: Callable[[], Awaitable[None]] | None = None
        """What happens once before the next patch arrives."""

    async def send(self, request: Request) -> Reply:
        if request.method == "PATCH" and "/pods/" in request.path and self.before_patch is not None:
            act, self.before_patch = self.before_patch, None
            await act()
        self.requests.append(f"{request.method} {request.path.rpartition('/namespaces/default/')[2]}")
        return await super().send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        name = f"WATCH {request.path.rpartition('/')[2]} {request.query.get('fieldSelector', '')}".strip()
        self.requests.append(name)
        try:
            async with super().stream(request) as reply:
                yield reply
        finally:
            self.requests.append(f"END {name}")


class Job:
    """A job on an API server, and an operator that answers its replicas."""

    def __init__(self, transport: CountingTransport, clock: Clock, raw: dict[str, Any]) -> None:
        self.transport = transport
        self.client = KubeClient(transport)
        self.desk = ProgressReceiver(self.client, clock, SECRET, "http://operator:8082")
        self.uid = raw["metadata"]["uid"]
        self._raw = raw
        job = AITrainingJobFrontend().parse(raw)
        self.path = report_path(job)
        self.token = derive_job_key(SECRET, KeyPurpose.REPORTS, key_scope(job))

    async def publish(
        self, generation: int, indexes: str, departures: dict[str, Departure] | None = None, **fields: Any
    ) -> None:
        """Write a membership and departures to the status, as the engine does."""
        membership = PublishedMembership(generation=generation, indexes={"worker": indexes} if indexes else {})
        state = EngineState(
            phase=JobPhase.RUNNING, started_at=NOON, membership=membership, departures=departures or {}, **fields
        )
        found = await self.client.get(JOBS, SPACE, "demo")
        found["status"] = {**(found.get("status") or {}), "phase": "Running", "pliant": dump_state(state)}
        await self.client.replace(JOBS, SPACE, "demo", found, subresource="status")

    async def create_pod(self, index: int = 0, *, is_owned: bool = True) -> dict[str, Any]:
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "demo", "uid": self.uid, "controller": True}
        body = {
            "metadata": {"name": f"demo-worker-{index}", "ownerReferences": [owner] if is_owned else []},
            "spec": {"containers": [{"name": "main", "image": "train"}], "automountServiceAccountToken": False},
        }
        return await self.client.create(PODS, SPACE, body)

    async def acknowledged(self, index: int = 0) -> str | None:
        pod = await self.client.get(PODS, SPACE, f"demo-worker-{index}")
        annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
        return annotations.get(ACKNOWLEDGED_CHECKPOINT_ANNOTATION)

    async def ask(self, query: str = "", replica: str = "worker-0", token: str | None = None) -> Answer:
        return await self._send(
            HttpRequest(method="GET", path=f"{self.path}{replica}", query=query, **self._auth(token))
        )

    async def post(self, body: Any, replica: str = "worker-0", token: str | None = None) -> Answer:
        text = json.dumps(body).encode()
        return await self._send(HttpRequest(path=f"{self.path}{replica}", body=text, **self._auth(token)))

    async def _send(self, request: HttpRequest) -> Answer:
        reply = self.desk.receive(request)
        response = reply if isinstance(reply, HttpResponse) else await reply
        return Answer(response.status, b"".join(response.encode()).partition(b"\r\n\r\n")[2].decode())

    def _auth(self, token: str | None) -> Any:
        return {"headers": {"authorization": f"Bearer {self.token if token is None else token}"}}

    @asynccontextmanager
    async def led(self) -> AsyncIterator[None]:
        """The operator leads: it has jobs and pods in its stores."""
        membership = self.desk.membership
        jobs = Informer(self.client, JOBS, dict, on_change=lambda old, new: membership.on_job_changed(JOBS, old, new))
        pods = Informer(self.client, PODS, Pod)
        running = [asyncio.create_task(informer.run()) for informer in (jobs, pods)]
        objects = CachedJobObjects({(JOBS.group, JOBS.plural): jobs.store}, [pods.store], jobs.wait_synced)
        try:
            with membership.use(objects, [AITrainingJobFrontend()]):
                await asyncio.gather(jobs.wait_synced(), pods.wait_synced())
                yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def departure(index: int = 0, request: int = 1, **fields: Any) -> Departure:
    return Departure(
        request=request,
        reason=DepartureReason.RESIZED,
        group="worker",
        index=index,
        at=NOON,
        deadline=NOON.replace(second=30),
        **fields,
    )


@asynccontextmanager
async def job_with_replicas(size: int = 4, clock: Clock | None = None, **group: Any) -> AsyncIterator[Job]:
    """A job on an API server, with an operator that does not lead."""
    clock = clock or VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        transport = CountingTransport(api)
        client = KubeClient(transport)
        await client.create(CRDS, None, AITrainingJobFrontend().crd())
        raw = raw_job({"worker": raw_group(replicas=size, **group)})
        raw["metadata"] = {"name": "demo", "namespace": SPACE}
        job = Job(transport, clock, await client.create(JOBS, SPACE, raw))
        transport.requests.clear()
        async with job.desk.write_in_background():
            yield job
