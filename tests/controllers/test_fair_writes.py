"""A large job and its neighbours: whose writes reach the server, and in which order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.frontends import FRONTENDS
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, NAMESPACES, PODS
from pliant.kube.transport.base import Reply, Request
from pliant.kube.transport.retry import WriteAdmission
from pliant.kube.transport.write_flows import WriteFlow
from pliant.kube.transport.write_limiter import MAX_WRITES_IN_FLIGHT, AdaptiveWriteLimiter, WriteSlot
from pliant.runtime.controller import ReconcileResult
from tests.controllers.operated import install_kinds, operating
from tests.depth import sample
from tests.edits.jobs import KINDS, job_of
from tests.embedded.serving import serving
from tests.virtual_time import VirtualClock, on_virtual_time, quiet

FRONTEND = AITrainingJobFrontend()
JOBS = resource_of(FRONTEND)
ROUND_TRIP = 0.01
TWO_SLICES = 2 * MAX_WRITES_IN_FLIGHT
LARGE, SMALL = "large", "small"


class Counting(InProcessTransport):
    """Takes its time for each write, and notes in which order the server gets them."""

    def __init__(self, inner: InProcessTransport, round_trip: float = ROUND_TRIP) -> None:
        self._inner = inner
        self._round_trip = round_trip
        self.writes: list[str] = []
        self.room = 1000  # writes at a time; others are turned away
        self.busy = self.refused = 0
        self.is_stopped = False
        self._changed = asyncio.Condition()

    async def send(self, request: Request) -> Reply:
        if request.method == "GET":
            return await self._inner.send(request)
        if self.is_stopped:
            await asyncio.Event().wait()
        if self.busy >= self.room:
            self.refused += 1
            return Reply(status=429, body=b'{"kind":"Status"}', headers={"Retry-After": "1"})
        self.busy += 1
        self.writes.append(describe(request))
        async with self._changed:
            self._changed.notify_all()
        try:
            await asyncio.sleep(self._round_trip)
        finally:
            self.busy -= 1
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
async def staged(*namespaces: str, **options: Any) -> AsyncIterator[tuple[KubeClient, Counting, Operator]]:
    async with serving() as served:
        await served.client.create(CRDS, None, FRONTEND.crd())
        for name in namespaces:
            await served.client.create(NAMESPACES, None, {"metadata": {"name": name}})
        transport = Counting(served.transport)
        operator = Operator(KubeClient(transport), VirtualClock(), **options)
        async with operating(operator):
            await operator.wait_ready()
            yield served.client, transport, operator
            transport.is_stopped = True  # nobody needs the rest of a wave


@asynccontextmanager
async def busy_with(size: int, **options: Any) -> AsyncIterator[tuple[KubeClient, Counting]]:
    """An operator in the middle of a large job's first wave."""
    async with staged("a", "b", **options) as (client, transport, _):
        await client.create(JOBS, "a", job(LARGE, size))
        await transport.until(lambda: len(transport.writes) > TWO_SLICES)
        yield client, transport


def ahead(writes: list[str], place: int, since: int) -> int:
    return sum(write.startswith(LARGE) for write in writes[since:place])


async def pods_of(client: KubeClient, namespace: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in (await client.list(PODS, namespace)).items]


@on_virtual_time
async def test_at_most_two_slices_of_a_job_of_ten_thousand_are_ahead_of_a_small_write() -> None:
    async with busy_with(MAX_REPLICAS_PER_JOB) as (client, transport):
        for namespace, name in (("b", "other"), ("a", "same")):
            since = len(transport.writes)
            await client.create(JOBS, namespace, job(name, 1))
            for kind in ("POST services", "POST pods", "PATCH status"):
                await transport.until(partial(transport.has, f"{name} {kind}"))
                place = transport.first(f"{name} {kind}", since)
                assert ahead(transport.writes, place, since) <= TWO_SLICES, (namespace, kind)
                since = place


@on_virtual_time
async def test_fifty_small_jobs_share_the_writes_with_a_large_one() -> None:
    async with busy_with(2_000) as (client, transport):
        since = len(transport.writes)
        names = [f"small{number}" for number in range(50)]
        await asyncio.gather(*(client.create(JOBS, "b", job(name, 1)) for name in names))
        await transport.until(lambda: all(transport.has(f"{name} PATCH status") for name in names))
        small = sum(write.startswith("small") for write in transport.writes[since:])
        assert ahead(transport.writes, len(transport.writes), since) <= small + 3 * TWO_SLICES, "a slice for each step"


@on_virtual_time
async def test_a_small_job_finds_a_worker_although_every_worker_had_a_large_one() -> None:
    large = [f"{LARGE}{number}" for number in range(6)]
    async with staged(*large, "b", workers=3) as (client, transport, _):
        for name in large:
            await client.create(JOBS, name, job(name, 300))
        await transport.until(lambda: len(transport.writes) > TWO_SLICES)
        since = len(transport.writes)
        await client.create(JOBS, "b", job(SMALL, 1))
        await transport.until(lambda: transport.has(f"{SMALL} POST pods"))
        place = transport.first(f"{SMALL} POST pods")
        for name in large:
            writes = sum(write.startswith(name) for write in transport.writes[since:place])
            assert writes <= TWO_SLICES, "no large job had two slices ahead"


@on_virtual_time
async def test_a_small_job_is_next_on_a_server_that_turns_most_writes_away() -> None:
    async with busy_with(1_000) as (client, transport):
        transport.room = 1
        await asyncio.sleep(2.0)
        since = len(transport.writes)
        await client.create(JOBS, "b", job(SMALL, 1))
        await transport.until(lambda: transport.has(f"{SMALL} PATCH status"))
        assert transport.refused > 0
        # Its service, its pod and its status each wait for two slices at most.
        assert ahead(transport.writes, len(transport.writes), since) <= 3 * TWO_SLICES


@on_virtual_time
async def test_a_job_that_is_deleted_while_its_pods_wait_gets_no_more_of_them() -> None:
    async with busy_with(2_000) as (client, transport):
        await client.delete(JOBS, "a", LARGE)
        await quiet()
        since = len(transport.writes)
        await asyncio.sleep(60.0)
        assert [write for write in transport.writes[since:] if " POST " in write] == []


@on_virtual_time
async def test_a_job_that_is_suspended_while_its_pods_wait_gets_no_more_of_them() -> None:
    async with busy_with(500) as (client, transport):
        await transport.until(lambda: transport.has(f"{LARGE} POST pods"))
        await client.patch(JOBS, "a", LARGE, {"spec": {"suspend": True}})
        await quiet()
        since = len(transport.writes)
        await asyncio.sleep(60.0)
        assert [write for write in transport.writes[since:] if write == f"{LARGE} POST pods"] == []
        status = (await client.get(JOBS, "a", LARGE))["status"]
        assert (status["phase"], await pods_of(client, "a")) == ("Suspended", [])


@on_virtual_time
async def test_a_wave_that_takes_minutes_creates_every_pod_once_and_fails_nowhere() -> None:
    async with serving() as served:
        await served.client.create(CRDS, None, FRONTEND.crd())
        transport = Counting(served.transport, round_trip=1.0)
        operator = Operator(KubeClient(transport, write_limiter=AdaptiveWriteLimiter(max_limit=1)), VirtualClock())
        async with operating(operator):
            await operator.wait_ready()
            await served.client.create(JOBS, "default", job(LARGE, 50))
            await asyncio.sleep(45.0)
            assert transport.has(f"{LARGE} PATCH status"), "the job is not without a status for minutes"
            await asyncio.sleep(200.0)
            names = await pods_of(served.client, "default")
        results = operator.controllers[JOBS.full_name].results
    assert len(names) == transport.writes.count(f"{LARGE} POST pods") == 50
    assert transport.writes.count(f"{LARGE} POST services") == 50
    assert results[ReconcileResult.FAILED] == results[ReconcileResult.CONFLICT] == 0


@on_virtual_time
async def test_a_large_job_is_written_as_fast_as_the_limit_allows() -> None:
    size = 10 * MAX_WRITES_IN_FLIGHT
    async with staged("a") as (client, transport, _):
        await client.create(JOBS, "a", job(LARGE, size))
        started = asyncio.get_running_loop().time()
        await transport.until(lambda: transport.writes.count(f"{LARGE} POST pods") == size)
        rounds = (asyncio.get_running_loop().time() - started) / ROUND_TRIP
        assert rounds <= 2 * size / MAX_WRITES_IN_FLIGHT + 4, "three rounds to find the limit"


@on_virtual_time
async def test_every_write_of_the_operator_waits_in_the_queue_of_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[tuple[WriteFlow, str]] = []
    slot_for = WriteAdmission.slot_for

    def noted(admission: WriteAdmission, request: Request, attempt: int) -> WriteSlot:
        waited.append((admission.flow, request.path))
        return slot_for(admission, request, attempt)

    monkeypatch.setattr(WriteAdmission, "slot_for", noted)
    async with serving() as served:
        await install_kinds(served.client)
        async with operating(Operator(KubeClient(served.transport), VirtualClock())):
            kinds = sample(KINDS, 6, "kinds whose writes are looked at")
            for kind in kinds:
                await served.client.create(resource_of(FRONTENDS[kind]), "default", job_of(kind))
            await asyncio.sleep(60)
            for kind in kinds:
                await served.client.delete(resource_of(FRONTENDS[kind]), "default", job_of(kind)["metadata"]["name"])
            await asyncio.sleep(120)
    assert {flow.namespace for flow, _ in waited} == {"default"}
    assert {flow.job == "" for flow, path in waited if "/events" in path} == {True}
    assert {flow.job == "" for flow, path in waited if "/events" not in path} == {False}
