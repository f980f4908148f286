"""The two servers of a comparison."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pliant.cli.cluster.apply import install_crds
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import AlreadyExists
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CRDS
from pliant.kube.transport.base import Request, Transport
from pliant.runtime.clock import SystemClock
from tests.differential.differences import StepResult
from tests.differential.objects.custom import GADGETS_PATH, gadget_crd
from tests.differential.sessions import Session
from tests.differential.steps import Step

APISERVER_FLAGS = ("--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
_RUN_NUMBERS = count()
_TRAINING_JOBS_PATH = "/apis/elasticdeeplearning.ai/v1/aitrainingjobs"


@dataclass
class ServerPair:
    """A server to compare with, and the embedded one."""

    real: Transport
    embedded: Transport

    async def prepare(self) -> None:
        """Install the CRDs and wait until both servers serve them."""
        for transport in (self.real, self.embedded):
            client = KubeClient(transport)
            await install_crds(client)
            with suppress(AlreadyExists):
                await client.create(CRDS, None, gadget_crd())
            for path in (GADGETS_PATH, _TRAINING_JOBS_PATH):
                await _wait_served(transport, path)

    async def run(self, steps: Sequence[Step]) -> AsyncIterator[StepResult]:
        """Send a sequence to both servers, in new namespaces; yield the answers."""
        run = f"u{next(_RUN_NUMBERS)}o"  # generated names and UIDs contain neither u nor o
        there, here = Session(self.real, run), Session(self.embedded, run)
        await asyncio.gather(there.prepare(), here.prepare())
        watches = [step for step in steps if step.method == "WATCH"]
        answers, others = there.run(steps), here.run(steps)
        try:
            waiting = iter([*steps, *watches])
            async for answer in answers:
                other = await anext(others, None)
                if other is None:
                    raise AssertionError(f"one server opened a watch that the other one refused: {steps}")
                yield StepResult(next(waiting), answer, other)
        finally:
            await answers.aclose()  # type: ignore[attr-defined]
            await others.aclose()  # type: ignore[attr-defined]


@asynccontextmanager
async def embedded_server() -> AsyncIterator[InProcessTransport]:
    """Start an API server without its garbage collector, which the real server does not have either."""
    api = ApiServer(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock())
    await api.initialize_from_store()
    yield InProcessTransport(api)


@asynccontextmanager
async def server_pair(kubeconfig: Path | None) -> AsyncIterator[ServerPair]:
    """Compare the embedded server with that of a kubeconfig; without one, with another embedded server."""
    async with embedded_server() as embedded:
        if kubeconfig is None:
            async with embedded_server() as other:
                pair = ServerPair(other, embedded)
                await pair.prepare()
                yield pair
            return
        real = create_transport(kubeconfig, None, SystemClock().now)
        try:
            pair = ServerPair(real, embedded)
            await pair.prepare()
            yield pair
        finally:
            await real.aclose()


async def _wait_served(transport: Transport, path: str) -> None:
    """Return when a new kind is served, which the real server does a moment later."""
    for _ in range(600):
        if (await transport.send(Request(method="GET", path=path))).status == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} is not served")
