"""Lead connections to the address of a service on to the pods behind it, each in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from pliant.embedded.kubelet.runtime.node_agent import AgentLost, NodeAgent
from pliant.embedded.network.service_index import ServiceEndpoint, ServiceIndex
from pliant.embedded.network.streams import ConnectionTasks, Stream, splice_streams
from pliant.embedded.object_views import ServicePortView, ServiceView

_BATCH_DELAY = 0.01
"""Seconds in which changes are gathered."""
_CONNECT_TIMEOUT = 5.0
"""Seconds for a pod to take a connection before the next one is tried."""

log = logging.getLogger(__name__)

ServiceAddress = tuple[str, int]


class ServiceProxy:
    """Listens at every port of every service that has pods behind it.

    Where there are none nobody listens, so that connections are refused at once.
    """

    def __init__(self, agent: NodeAgent, service_index: ServiceIndex) -> None:
        self._agent = agent
        self._service_index = service_index
        self._changed = asyncio.Event()
        self._servers: dict[ServiceAddress, asyncio.Server] = {}
        self._failed_addresses: set[ServiceAddress] = set()
        """Where this user may not listen, told once."""
        self._round_robin: dict[ServiceAddress, int] = defaultdict(int)
        self._client_affinity: dict[tuple[ServiceAddress, str], ServiceEndpoint] = {}
        """Where a client was led before, for services that want it led there again."""
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(cls, agent: NodeAgent, service_index: ServiceIndex) -> AsyncIterator[ServiceProxy]:
        """A balancer that follows what becomes of services and pods."""
        balancer = cls(agent, service_index)
        service_index.on_change = balancer._changed.set
        balancer._changed.set()  # what is known already is served, too
        following = asyncio.get_running_loop().create_task(balancer._run_sync_loop())
        try:
            yield balancer
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            for server in balancer._servers.values():
                server.close()
            await balancer._connections.cancel_all()

    async def _run_sync_loop(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_BATCH_DELAY)
            self._changed.clear()
            try:
                await self._sync_listeners()
            except AgentLost:
                return  # another one begins where another agent does

    async def _sync_listeners(self) -> None:
        """Listen where there is somebody to lead to, and nowhere else."""
        wanted = {
            (service.spec.cluster_ip, port.port): (service, port) for service, port in self._ports_with_endpoints()
        }
        for place in self._servers.keys() - wanted.keys():
            self._servers.pop(place).close()
            self._round_robin.pop(place, None)
            self._client_affinity = {key: each for key, each in self._client_affinity.items() if key[0] != place}
        for place in wanted.keys() - self._servers.keys():
            try:
                listener = await self._agent.open_socket("stream", *place)
            except OSError as problem:
                if place not in self._failed_addresses:
                    log.warning("service unreachable", extra={"address": place, "because": str(problem)})
                self._failed_addresses.add(place)
                continue
            self._servers[place] = await asyncio.start_server(partial(self._forward_connection, place), sock=listener)

    def _ports_with_endpoints(self) -> list[tuple[ServiceView, ServicePortView]]:
        return [
            (service, port)
            for service in self._service_index.services()
            if service.spec.cluster_ip not in ("", "None")
            for port in service.spec.ports
            if _is_tcp(port) and self._service_index.endpoints(service, port)
        ]

    async def _forward_connection(
        self, service_address: ServiceAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        here = Stream(reader, writer)
        with self._connections.track(writer):
            there = await self._connect_backend(service_address, writer.get_extra_info("peername")[0])
            if there is None:
                here.abort()
            else:
                await splice_streams(here, there)

    async def _connect_backend(self, service_address: ServiceAddress, client_ip: str) -> Stream | None:
        """A connection to the pod whose turn it is, or to the first after it that takes one."""
        service = self._service_index.service_by_ip(service_address[0])
        is_loyal = service is not None and service.spec.session_affinity == "ClientIP"
        for each in self._order_endpoints(
            service_address, self._client_affinity.get((service_address, client_ip)) if is_loyal else None
        ):
            with suppress(OSError, AgentLost):
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    stream = await Stream.from_socket(await self._agent.connect(each.address, each.port))
                if is_loyal:
                    self._client_affinity[service_address, client_ip] = each
                return stream
        return None

    def _order_endpoints(
        self, service_address: ServiceAddress, preferred: ServiceEndpoint | None
    ) -> list[ServiceEndpoint]:
        """Where a connection may be led at this moment, the best place first."""
        endpoints = self._endpoints(service_address)
        if preferred in endpoints:
            return [preferred, *(each for each in endpoints if each != preferred)]
        turn = self._round_robin[service_address] % max(1, len(endpoints))
        self._round_robin[service_address] += 1
        return endpoints[turn:] + endpoints[:turn]

    def _endpoints(self, service_address: ServiceAddress) -> list[ServiceEndpoint]:
        service = self._service_index.service_by_ip(service_address[0])
        ports = (
            [each for each in service.spec.ports if _is_tcp(each) and each.port == service_address[1]]
            if service
            else []
        )
        return self._service_index.endpoints(service, ports[0]) if service and ports else []


def _is_tcp(port: ServicePortView) -> bool:
    """Whether connections to a port are led on; datagrams are not."""
    return port.protocol == "TCP"
