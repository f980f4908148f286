"""Egress of pods: through `pasta` if it works, otherwise through an HTTP proxy and a transparent proxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from socket import socket

from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.network.egress_connector import ConnectionDenied, EgressConnector, EgressPolicy, HostProxy
from pliant.embedded.network.egress_proxy import EgressProxy, proxy_variables
from pliant.embedded.network.pasta import PastaProcess, PastaUnavailable, is_pasta_installed
from pliant.embedded.network.service_index import API_SERVICE_IP
from pliant.embedded.network.streams import ConnectionTasks, DuplexStream, cancel_task, splice_streams

_SAMPLE_EXTERNAL_HOST = "example.com"
"""Used to find out whether the host needs a proxy for external hosts."""
TRANSPARENT_PROXY_PORTS = (
    *(22, 80, 443, 465, 587, 873, 990, 993, 1433, 1521, 2181, 3000, 3128, 3306, 4000, 4317, 4318, 5000, 5001, 5432),
    *(5672, 6379, 6443, 7687, 8000, 8001, 8080, 8081, 8086, 8088, 8123, 8443, 8883, 8888, 9000, 9042, 9090, 9092),
    *(9200, 9418, 11211, 11434, 27017, 50051),
)
"""Usual ports of web servers, shells, databases, queues, caches, mail servers and registries.

A listener accepts connections to one port of all addresses; listeners on all ports would be too many.
"""
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - in a network of its own, where every address is outside

log = logging.getLogger(__name__)


class TransparentProxy:
    def __init__(self, connector: EgressConnector) -> None:
        self._connector = connector
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(cls, agent: NodeAgentClient, connector: EgressConnector) -> AsyncIterator[TransparentProxy]:
        """Listen on the well-known ports; if that fails, pods still have the HTTP proxy."""
        proxy = cls(connector)
        opening = (agent.open_socket("stream", _ANY_ADDRESS, port, in_egress=True) for port in TRANSPARENT_PROXY_PORTS)
        opened = await asyncio.gather(*opening, return_exceptions=True)
        if errors := [each for each in opened if isinstance(each, BaseException)]:
            log.warning("transparent egress proxy unavailable", extra={"error": str(errors[0])})
        listeners = [each for each in opened if isinstance(each, socket)]
        servers = [await asyncio.start_server(proxy.forward_connection, sock=each) for each in listeners]
        try:
            yield proxy
        finally:
            for server in servers:
                server.close()
            await proxy._connections.cancel_all()

    async def forward_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = DuplexStream(reader, writer)
        address, port = writer.get_extra_info("sockname")
        with self._connections.track(writer), suppress(OSError):
            try:
                server = await self._connector.connect(address, port, writer.get_extra_info("peername")[0])
            except ConnectionDenied as denied:
                log.info("connection denied", extra={"to": f"{address}:{port}", "reason": str(denied)})
                client.abort()
                return
            await splice_streams(client, server)


class EgressManager:
    """Provides egress, and the environment variables that programs in pods need for it."""

    def __init__(self, agent: NodeAgentClient, connector: EgressConnector, policy: EgressPolicy) -> None:
        self._agent = agent
        self._connector = connector
        self._policy = policy
        self.uses_pasta = False
        """Whether sockets of pods reach external hosts without a proxy."""

    @classmethod
    @asynccontextmanager
    async def serve(
        cls, agent: NodeAgentClient, connector: EgressConnector, policy: EgressPolicy, state_dir: Path
    ) -> AsyncIterator[EgressManager]:
        """Start the egress services; `state_dir` is for the files of pasta."""
        manager = cls(agent, connector, policy)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(EgressProxy.serve(agent, connector))
            if policy.allow_external:
                await manager._open_external_access(stack, state_dir)
            yield manager

    def proxy_variables_if_needed(self, namespace: str) -> dict[str, str]:
        if self.uses_pasta and not self._policy.allow_host_loopback and not _host_uses_proxy():
            return {}
        return proxy_variables(self._agent.gateway_address, [API_SERVICE_IP, f".{namespace}"])

    async def _open_external_access(self, stack: AsyncExitStack, state_dir: Path) -> None:
        if self._policy.use_pasta and is_pasta_installed():
            try:
                starting_pasta = PastaProcess.start(
                    self._agent, state_dir, allow_host_loopback=self._policy.allow_host_loopback
                )
                pasta = await stack.enter_async_context(starting_pasta)
            except PastaUnavailable as error:
                log.warning("pasta unavailable: egress through the HTTP proxy", extra={"error": str(error)})
            else:
                self.uses_pasta = True
                watcher = asyncio.create_task(self._fall_back_on_exit(pasta))
                stack.push_async_callback(cancel_task, watcher)
                return
        await stack.enter_async_context(TransparentProxy.serve(self._agent, self._connector))

    async def _fall_back_on_exit(self, pasta: PastaProcess) -> None:
        reason = await pasta.wait_exited()
        self.uses_pasta = False
        log.warning("pasta exited: egress of new pods through the HTTP proxy", extra={"reason": reason})
        async with TransparentProxy.serve(self._agent, self._connector):
            await asyncio.Event().wait()


def _host_uses_proxy() -> bool:
    """Return whether the host needs a proxy; sockets of pods would not reach external hosts without it."""
    return any(
        HostProxy.for_target(scheme, _SAMPLE_EXTERNAL_HOST, port) for scheme, port in (("http", 80), ("https", 443))
    )
