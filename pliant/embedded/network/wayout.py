"""How pods leave the cluster's network: by plain sockets where `pasta` makes that possible, else by a proxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from pliant.embedded.names import API_ADDRESS
from pliant.embedded.network.egress import EgressProxy, proxy_variables
from pliant.embedded.network.outside import Outside
from pliant.embedded.network.pasta import Pasta, Unusable, is_installed
from pliant.embedded.network.relay import Relay
from pliant.embedded.network.routes import Egress, Routes
from pliant.embedded.node.link import NodeAgent

_ANYBODY = "example.com"
"""Somebody outside, to learn whether this machine goes there through a proxy."""

log = logging.getLogger(__name__)


class WayOut:
    """Knows what programs in pods must be told to get out."""

    def __init__(self, agent: NodeAgent, routes: Routes, egress: Egress) -> None:
        self._agent = agent
        self._routes = routes
        self._egress = egress
        self.is_plain = False
        """Whether every socket gets out as it is."""

    @classmethod
    @asynccontextmanager
    async def serving(
        cls, agent: NodeAgent, routes: Routes, egress: Egress, folder: Path
    ) -> AsyncIterator[WayOut]:
        """A way out, or a refusal that tells why there is none; `folder` is for what is needed to make it."""
        way = cls(agent, routes, egress)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(EgressProxy.serving(agent, routes))
            if egress.outside:
                await way._open(stack, folder)
            yield way

    def variables(self, namespace: str) -> dict[str, str]:
        """What tells a program of the proxy, where it needs one."""
        if self.is_plain and not self._egress.host_loopback and not _goes_by_proxy():
            return {}
        return proxy_variables(self._agent.address, [API_ADDRESS, f".{namespace}"])

    async def _open(self, stack: AsyncExitStack, folder: Path) -> None:
        if self._egress.plain and is_installed():
            try:
                starting = Pasta.started(self._agent, folder, host_loopback=self._egress.host_loopback)
                pasta = await stack.enter_async_context(starting)
            except Unusable as problem:
                log.warning("pasta is not used: pods go out by the proxy", extra={"because": str(problem)})
            else:
                self.is_plain = True
                watching = asyncio.create_task(self._replace(pasta))
                stack.push_async_callback(_cancelled, watching)
                return
        await stack.enter_async_context(Outside.serving(self._agent, self._routes))

    async def _replace(self, pasta: Pasta) -> None:
        """Fall back to what needs no program when that has ended."""
        words = await pasta.wait_ended()
        self.is_plain = False
        log.warning("pasta ended: pods that start from now on go out by the proxy", extra={"because": words})
        async with Outside.serving(self._agent, self._routes):
            await asyncio.Event().wait()


def _goes_by_proxy() -> bool:
    """Whether this machine itself needs a proxy to get out: sockets of pods would not get out without one."""
    return any(Relay.towards(scheme, _ANYBODY, port) for scheme, port in (("http", 80), ("https", 443)))


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
