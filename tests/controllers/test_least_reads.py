"""What the operator asks the API server for, and what it tells: nothing of others, and nothing secret."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import EVENTS
from pliant.kube.transport.base import Reply, Request, StreamReply
from tests.builders import KEY_SECRET
from tests.controllers.operated import install_kinds, operating
from tests.edits.jobs import KINDS, job_of
from tests.embedded.serving import serving
from tests.virtual_time import VirtualClock, on_virtual_time, quiet

CANARY = "canary-4711"


class Recording(InProcessTransport):
    """Keeps every read that is not of a single object."""

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.reads: list[Request] = []

    async def send(self, request: Request) -> Reply:
        if request.method == "GET":
            self.reads.append(request)
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        self.reads.append(request)
        async with self._inner.stream(request) as reply:
            yield reply


@on_virtual_time
async def test_pods_and_services_are_read_by_label_and_nobodys_secrets_or_config_maps_are() -> None:
    async with serving() as served:
        await install_kinds(served.client)
        transport = Recording(served.transport)
        async with operating(Operator(KubeClient(transport), VirtualClock(), key_secret=KEY_SECRET)):
            for kind in KINDS:
                job = job_of(kind)
                job["metadata"]["name"] = f"{kind[1]}-{kind[0]}".lower().replace(".", "-")
                await served.client.create(resource_of(FRONTENDS[kind]), "default", job)
            await asyncio.sleep(60)
    collections = {request.path for request in transport.reads}
    assert {"/api/v1/pods", "/api/v1/services"} <= collections
    assert [path for path in collections if path.endswith(("/secrets", "/configmaps"))] == []
    for request in transport.reads:
        if request.path in ("/api/v1/pods", "/api/v1/services"):
            assert request.query.get("labelSelector"), request


@on_virtual_time
async def test_values_of_variables_are_in_no_log_and_no_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as served:
        await install_kinds(served.client)
        async with operating(Operator(KubeClient(served.transport), VirtualClock(), key_secret=KEY_SECRET)):
            for kind in KINDS:
                variable = msgspec.json.encode([{"name": "PASSWORD", "value": CANARY}])
                text = msgspec.json.encode(job_of(kind)).replace(b'"image":', b'"env":' + variable + b',"image":')
                job = msgspec.json.decode(text)
                job["metadata"]["name"] = f"{kind[1]}-{kind[0]}".lower().replace(".", "-")
                await served.client.create(resource_of(FRONTENDS[kind]), "default", job)
            await asyncio.sleep(60)
            await quiet()
            assert CANARY not in str((await served.client.list(EVENTS, "default")).items)
    assert [record.getMessage() for record in caplog.records if CANARY in str(record.__dict__)] == []
