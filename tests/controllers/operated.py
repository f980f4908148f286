"""An API server with an operator at work and no nodes, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends import FRONTENDS
from pliant.frontends.frontend import Frontend, required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS
from tests.builders import KEY_SECRET
from tests.virtual_time import VirtualClock


async def install_kinds(client: KubeClient, change: Callable[[Any], Any] = lambda crd: crd) -> None:
    """Install the definitions of all kinds, each of them changed."""
    crds = (crd for frontend in FRONTENDS.values() for crd in required_crds(frontend))
    for crd in {crd["metadata"]["name"]: crd for crd in crds}.values():
        await client.create(CRDS, None, change(crd))


@asynccontextmanager
async def operated(*frontends: Frontend) -> AsyncIterator[KubeClient]:
    """A server that serves these kinds, and an operator for all kinds."""
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        for frontend in frontends:
            await client.create(CRDS, None, frontend.crd())
        async with operating(Operator(client, clock, key_secret=KEY_SECRET)):
            yield client


@asynccontextmanager
async def operating(operator: Operator) -> AsyncIterator[None]:
    """The operator runs."""
    running = asyncio.create_task(operator.run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
