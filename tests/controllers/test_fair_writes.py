"""A large job and its neighbours: whose writes reach the server, and in which order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, NAMESPACES, PODS
from pliant.kube.transport.base import Reply, Request
from pliant.kube.transport.write_limiter import MAX_WRITES_IN_FLIGHT
from tests.controllers.operated import operating
from tests.embedded.serving import serving
from tests.virtual_time import VirtualClock, on_virtual_time

FRONTEND = AITrainingJobFrontend()
JOBS = resource_of(FRONTEND)
ROUND_TRIP = 0.01
TWO_SLICES = 2 * MAX_WRITES_IN_FLIGHT
LARGE, SMALL = "large", "small"


class Counting(InProcessTransport):
    """Takes its time for each write, and notes in which order the server gets them."""

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.writes: list[str] = []
        self.refuse: Callable[[Request], bool] = lambda request: False
        self.is_stopped = False
        self._changed = asyncio.Condition()

    async def send(self, request: Request) -> Reply:
        if request.method == "GET":
            return await self._inner.send(request)
        if self.is_stopped:
            await asyncio.Event().wait()
        if self.refuse(request):
            return Reply(status=429, body=b'{"kind":"Status"}', headers={"Retry-After": "1"})
        self.writes.append(describe(request))
        async with self._changed:
            self._changed.notify_all()
        await asyncio.sleep(ROUND_TRIP)
        return await self._inner.send(request)

    def stream(self, request: Request) -> Any:
        return self._inner.stream(request)

    async def until(self, is_there: Callable[[], bool]) -> None:
        async with asyncio.timeout(3600), self._changed:
            await self._changed.wait_for(is_there)

    def first(self, start: str, since: int = 0) -> int:
        """The place of the first write that begins like this."""
        return next(place for place in range(since, len(self.writes)) if self.writes[place].startswith(start))

    def has(self, start: str) -> bool:
        return any(write.startswith(start) for write in self.writes)


def describe(request: Request) -> str:
    """`small POST pods`: the job, the method and the collection or subresource."""
    parts = request.path.split("/")
    parts = parts[parts.index("namespaces") + 2 :]
    name = parts[1] if len(parts) > 1 else json.loads(request.body)["metadata"]["name"]
    return f"{name.partition('-')[0].partition('.')[0]} {request.method} {parts[2] if len(parts) > 2 else parts[0]}"


def job(name: str, size: int) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "trainer"}]}}
    group = {"replicas": size, "template": template}
    kind = {"apiVersion": JOBS.api_version, "kind": JOBS.kind}
    return {**kind, "metadata": {"name": name}, "spec": {"replicaSpecs": {"worker": group}}}


@asynccontextmanager
async def busy_with(size: int, **options: Any) -> AsyncIterator[tuple[KubeClient, Counting]]:
    """An operator in the middle of a large job's first wave."""
    async with serving() as served:
        await served.client.create(CRDS, None, FRONTEND.crd())
        for name in "ab":
            await served.client.create(NAMESPACES, None, {"metadata": {"name": name}})
        transport = Counting(served.transport)
        async with operating(Operator(KubeClient(transport), VirtualClock(), **options)):
            await served.client.create(JOBS, "a", job(LARGE, size))
            await transport.until(lambda: len(transport.writes) > TWO_SLICES)
            yield served.client, transport
            transport.is_stopped = True  # nobody needs the rest of the wave


def ahead(writes: list[str], place: int, since: int) -> int:
    return sum(write.startswith(LARGE) for write in writes[since:place])


@pytest.mark.parametrize("namespace", ["a", "b"])
@on_virtual_time
async def test_at_most_two_slices_of_a_job_of_ten_thousand_are_ahead_of_a_small_write(namespace: str) -> None:
    async with busy_with(MAX_REPLICAS_PER_JOB) as (client, transport):
        since = len(transport.writes)
        await client.create(JOBS, namespace, job(SMALL, 1))
        for kind in ("POST services", "POST pods", "PATCH status"):
            await transport.until(lambda kind=kind: transport.has(f"{SMALL} {kind}"))
            place = transport.first(f"{SMALL} {kind}", since)
            assert ahead(transport.writes, place, since) <= TWO_SLICES, kind
            since = place
