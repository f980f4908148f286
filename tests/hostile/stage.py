"""A cluster on virtual time with every kind, an operator, nodes that run no processes, and two tenants."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import msgspec

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.auth.users import ADMIN_USER
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import NAMESPACES
from pliant.kube.transport.base import Reply, Request
from tests.builders import KEY_SECRET
from tests.controllers.operated import install_kinds
from tests.edits.jobs import KINDS, Raw, job_of
from tests.edits.stage import PATIENCE, without_schema
from tests.faults.stand_in_node import FOR_EVER, StandInNodes
from tests.virtual_time import VirtualClock, passing

HOSTILE, HONEST = "hostile", "honest"
"""The namespaces of the tenants."""


class Cluster:
    def __init__(self, api: ApiServer, client: KubeClient) -> None:
        self.api, self.client = api, client

    async def send(self, method: str, path: str, body: bytes = b"", **fields: Any) -> Reply:
        return await self.send_request(Request(method=method, path=path, body=body, **fields))

    async def send_request(self, request: Request) -> Reply:
        """Send a request as a tenant does, without the retries and checks of a client."""
        reply = await self.api.handle(request, ADMIN_USER)
        if not isinstance(reply, Reply):
            await reply.chunks.aclose()  # type: ignore[attr-defined]
            return Reply(status=reply.status, body=b"")
        return reply

    async def send_object(self, method: str, path: str, content: Raw) -> Reply:
        return await self.send(method, path, msgspec.json.encode(content))

    async def check_honest_tenant(self, name: str) -> None:
        """A small job of the honest tenant runs within seconds, whatever the hostile one has just done."""
        jobs = resource_of(FRONTENDS[KINDS[0]])
        job = {**job_of(KINDS[0]), "metadata": {"name": name, "namespace": HONEST}}
        await self.client.create(jobs, HONEST, job)
        await passing(PATIENCE)
        assert (await self.client.get(jobs, HONEST, name))["status"]["phase"] == "Running"
        await self.client.delete(jobs, HONEST, name)


@asynccontextmanager
async def cluster(*, is_lax: bool = False) -> AsyncIterator[Cluster]:
    """A cluster on virtual time, with our definitions of the kinds or with definitions that let anything pass."""
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        await install_kinds(client, without_schema if is_lax else dict)
        for name in (HOSTILE, HONEST):
            await client.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        nodes = StandInNodes(client, lambda group, index, attempt: FOR_EVER)
        await nodes.register()
        tasks = [
            asyncio.create_task(each) for each in (nodes.run(), Operator(client, clock, key_secret=KEY_SECRET).run())
        ]
        await passing(PATIENCE)
        try:
            yield Cluster(api, client)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.tracebacks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a reader of the log would take for a defect."""
        if record.exc_info or record.levelno >= logging.ERROR:
            self.tracebacks.append(logging.Formatter().format(record))


@contextmanager
def no_tracebacks() -> Iterator[None]:
    """Nothing logs a traceback or an error."""
    records, root = _Records(), logging.getLogger()
    root.addHandler(records)
    try:
        yield
    finally:
        root.removeHandler(records)
    assert records.tracebacks == []
