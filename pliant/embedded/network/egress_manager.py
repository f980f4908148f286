"""How pods leave the cluster's network: by plain sockets where `pasta` makes that possible, else by a proxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from pliant.embedded.kubelet.runtime.node_agent import NodeAgent
from pliant.embedded.network.egress_connector import EgressConnector, EgressPolicy
from pliant.embedded.network.egress_proxy import EgressProxy, proxy_variables
from pliant.embedded.network.host_proxy import HostProxy
from pliant.embedded.network.pasta import PastaProcess, PastaUnavailable, is_installed
from pliant.embedded.network.service_index import API_SERVICE_IP
from pliant.embedded.network.transparent_proxy import TransparentProxy

_SAMPLE_EXTERNAL_HOST = "example.com"
"""Somebody outside, to learn whether this machine goes there through a proxy."""

log = logging.getLogger(__name__)


class EgressManager:
    """Knows what programs in pods must be told to get out."""

    def __init__(self, agent: NodeAgent, connector: EgressConnector, policy: EgressPolicy) -> None:
        self._agent = agent
        self._connector = connector
        self._policy = policy
        self.uses_pasta = False
        """Whether every socket gets out as it is."""

    @classmethod
    @asynccontextmanager
    async def serve(
        cls, agent: NodeAgent, connector: EgressConnector, policy: EgressPolicy, state_dir: Path
    ) -> AsyncIterator[EgressManager]:
        """A way out, or a refusal that tells why there is none; `folder` is for what is needed to make it."""
        way = cls(agent, connector, policy)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(EgressProxy.serve(agent, connector))
            if policy.allow_external:
                await way._open_external_access(stack, state_dir)
            yield way

    def proxy_environment(self, namespace: str) -> dict[str, str]:
        """What tells a program of the proxy, where it needs one."""
        if self.uses_pasta and not self._policy.allow_host_loopback and not _host_uses_proxy():
            return {}
        return proxy_variables(self._agent.address, [API_SERVICE_IP, f".{namespace}"])

    async def _open_external_access(self, stack: AsyncExitStack, state_dir: Path) -> None:
        if self._policy.use_pasta and is_installed():
            try:
                starting = PastaProcess.start(
                    self._agent, state_dir, allow_host_loopback=self._policy.allow_host_loopback
                )
                pasta = await stack.enter_async_context(starting)
            except PastaUnavailable as problem:
                log.warning("pasta is not used: pods go out by the proxy", extra={"because": str(problem)})
            else:
                self.uses_pasta = True
                watching = asyncio.create_task(self._fall_back_on_exit(pasta))
                stack.push_async_callback(_cancel_task, watching)
                return
        await stack.enter_async_context(TransparentProxy.serve(self._agent, self._connector))

    async def _fall_back_on_exit(self, pasta: PastaProcess) -> None:
        """Fall back to what needs no program when that has ended."""
        words = await pasta.wait_exited()
        self.uses_pasta = False
        log.warning("pasta ended: pods that start from now on go out by the proxy", extra={"because": words})
        async with TransparentProxy.serve(self._agent, self._connector):
            await asyncio.Event().wait()


def _host_uses_proxy() -> bool:
    """Whether this machine itself needs a proxy to get out: sockets of pods would not get out without one."""
    return any(
        HostProxy.for_target(scheme, _SAMPLE_EXTERNAL_HOST, port) for scheme, port in (("http", 80), ("https", 443))
    )


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
