"""The service proxy: forwards connections from the cluster IP of a service to its pods, round-robin."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from pliant.embedded.kubelet.runtime.messages import AgentLost
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.network.service_index import ServiceEndpoint, ServiceIndex
from pliant.embedded.network.streams import ConnectionTasks, DuplexStream, cancel_task, splice_streams
from pliant.embedded.object_views import ServicePortView, ServiceView

_BATCH_DELAY_SECONDS = 0.01
_CONNECT_TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)

ServiceAddress = tuple[str, int]


class ServiceProxy:
    """Listens on every TCP port of every service that has endpoints.

    Connections to a service without endpoints are refused at once, because no socket listens there.
    """

    def __init__(self, agent: NodeAgentClient, service_index: ServiceIndex) -> None:
        self._agent = agent
        self._service_index = service_index
        self._changed = asyncio.Event()
        self._servers: dict[ServiceAddress, asyncio.Server] = {}
        self._failed_addresses: set[ServiceAddress] = set()
        """Addresses on which listening failed; each is logged once."""
        self._round_robin: dict[ServiceAddress, int] = defaultdict(int)
        self._client_affinity: dict[tuple[ServiceAddress, str], ServiceEndpoint] = {}
        """Last endpoint of each client, for services with sessionAffinity ClientIP."""
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(cls, agent: NodeAgentClient, service_index: ServiceIndex) -> AsyncIterator[ServiceProxy]:
        proxy = cls(agent, service_index)
        service_index.on_change = proxy._changed.set
        proxy._changed.set()  # for services that are already in the index
        sync_loop = asyncio.get_running_loop().create_task(proxy._run_sync_loop())
        try:
            yield proxy
        finally:
            await cancel_task(sync_loop)
            for server in proxy._servers.values():
                server.close()
            await proxy._connections.cancel_all()

    async def _run_sync_loop(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_BATCH_DELAY_SECONDS)
            self._changed.clear()
            try:
                await self._sync_listeners()
            except AgentLost:
                return  # the supervisor starts a new proxy with the new agent

    async def _sync_listeners(self) -> None:
        desired = {
            (service.spec.cluster_ip, port.port): (service, port) for service, port in self._ports_with_endpoints()
        }
        for address in self._servers.keys() - desired.keys():
            self._servers.pop(address).close()
            self._round_robin.pop(address, None)
            self._client_affinity = {key: each for key, each in self._client_affinity.items() if key[0] != address}
        for address in desired.keys() - self._servers.keys():
            try:
                listener = await self._agent.open_socket("stream", *address)
            except OSError as error:
                if address not in self._failed_addresses:
                    log.warning("cannot listen for service", extra={"address": address, "error": str(error)})
                self._failed_addresses.add(address)
                continue
            self._servers[address] = await asyncio.start_server(
                partial(self._forward_connection, address), sock=listener
            )

    def _ports_with_endpoints(self) -> list[tuple[ServiceView, ServicePortView]]:
        return [
            (service, port)
            for service in self._service_index.services()
            if service.spec.cluster_ip not in ("", "None")
            for port in service.spec.ports
            if _is_tcp(port) and self._service_index.routable_endpoints(service, port)
        ]

    async def _forward_connection(
        self, service_address: ServiceAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        client = DuplexStream(reader, writer)
        with self._connections.track(writer):
            backend = await self._connect_backend(service_address, writer.get_extra_info("peername")[0])
            if backend is None:
                client.abort()
            else:
                await splice_streams(client, backend)

    async def _connect_backend(self, service_address: ServiceAddress, client_ip: str) -> DuplexStream | None:
        service = self._service_index.service_by_ip(service_address[0])
        has_affinity = service is not None and service.spec.session_affinity == "ClientIP"
        preferred = self._client_affinity.get((service_address, client_ip)) if has_affinity else None
        for endpoint in self._order_endpoints(service_address, preferred):
            with suppress(OSError, AgentLost):
                async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
                    stream = await DuplexStream.from_socket(
                        await self._agent.connect_in_pod_network(endpoint.address, endpoint.port)
                    )
                if has_affinity:
                    self._client_affinity[service_address, client_ip] = endpoint
                return stream
        return None

    def _order_endpoints(
        self, service_address: ServiceAddress, preferred: ServiceEndpoint | None
    ) -> list[ServiceEndpoint]:
        endpoints = self._endpoints(service_address)
        if preferred in endpoints:
            return [preferred, *(each for each in endpoints if each != preferred)]
        start = self._round_robin[service_address] % max(1, len(endpoints))
        self._round_robin[service_address] += 1
        return endpoints[start:] + endpoints[:start]

    def _endpoints(self, service_address: ServiceAddress) -> list[ServiceEndpoint]:
        service = self._service_index.service_by_ip(service_address[0])
        if service is None:
            return []
        ports = [each for each in service.spec.ports if _is_tcp(each) and each.port == service_address[1]]
        return self._service_index.routable_endpoints(service, ports[0]) if ports else []


def _is_tcp(port: ServicePortView) -> bool:
    return port.protocol == "TCP"
