"""Lead connections to the address of a service on to the pods behind it, each in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from pliant.embedded.names import Endpoint, Names
from pliant.embedded.network.connections import Connections
from pliant.embedded.network.joining import Stream, joined
from pliant.embedded.node.link import AgentLost, NodeAgent
from pliant.embedded.views import ServicePort, ServiceView

_PAUSE = 0.01
"""Seconds in which changes are gathered."""
_PATIENCE = 5.0
"""Seconds for a pod to take a connection before the next one is tried."""

log = logging.getLogger(__name__)

Place = tuple[str, int]


class Balancer:
    """Listens at every port of every service that has pods behind it.

    Where there are none nobody listens, so that connections are refused at once.
    """

    def __init__(self, agent: NodeAgent, names: Names) -> None:
        self._agent = agent
        self._names = names
        self._changed = asyncio.Event()
        self._open: dict[Place, asyncio.Server] = {}
        self._refused: set[Place] = set()
        """Where this user may not listen, told once."""
        self._turns: dict[Place, int] = defaultdict(int)
        self._loyal: dict[tuple[Place, str], Endpoint] = {}
        """Where a client was led before, for services that want it led there again."""
        self._connections = Connections()

    @classmethod
    @asynccontextmanager
    async def serving(cls, agent: NodeAgent, names: Names) -> AsyncIterator[Balancer]:
        """A balancer that follows what becomes of services and pods."""
        balancer = cls(agent, names)
        names.on_change = balancer._changed.set
        balancer._changed.set()  # what is known already is served, too
        following = asyncio.get_running_loop().create_task(balancer._follow())
        try:
            yield balancer
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            for server in balancer._open.values():
                server.close()
            await balancer._connections.end()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_PAUSE)
            self._changed.clear()
            try:
                await self._adjust()
            except AgentLost:
                return  # another one begins where another agent does

    async def _adjust(self) -> None:
        """Listen where there is somebody to lead to, and nowhere else."""
        wanted = {(service.spec.cluster_ip, port.port): (service, port) for service, port in self._inhabited()}
        for place in self._open.keys() - wanted.keys():
            self._open.pop(place).close()
            self._turns.pop(place, None)
            self._loyal = {key: each for key, each in self._loyal.items() if key[0] != place}
        for place in wanted.keys() - self._open.keys():
            try:
                listener = await self._agent.open_socket("stream", *place)
            except OSError as problem:
                if place not in self._refused:
                    log.warning("service unreachable", extra={"address": place, "because": str(problem)})
                self._refused.add(place)
                continue
            self._open[place] = await asyncio.start_server(partial(self._lead, place), sock=listener)

    def _inhabited(self) -> list[tuple[ServiceView, ServicePort]]:
        return [
            (service, port)
            for service in self._names.services()
            if service.spec.cluster_ip not in ("", "None")
            for port in service.spec.ports
            if _is_served(port) and self._names.endpoints(service, port)
        ]

    async def _lead(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = Stream(reader, writer)
        with self._connections.noted(writer):
            there = await self._connected(place, writer.get_extra_info("peername")[0])
            if there is None:
                here.abort()
            else:
                await joined(here, there)

    async def _connected(self, place: Place, client: str) -> Stream | None:
        """A connection to the pod whose turn it is, or to the first after it that takes one."""
        service = self._names.service_at(place[0])
        is_loyal = service is not None and service.spec.session_affinity == "ClientIP"
        for each in self._in_turn(place, self._loyal.get((place, client)) if is_loyal else None):
            with suppress(OSError, AgentLost):
                async with asyncio.timeout(_PATIENCE):
                    stream = await Stream.over(await self._agent.connected(each.address, each.port))
                if is_loyal:
                    self._loyal[place, client] = each
                return stream
        return None

    def _in_turn(self, place: Place, first: Endpoint | None) -> list[Endpoint]:
        """Where a connection may be led at this moment, the best place first."""
        endpoints = self._endpoints(place)
        if first in endpoints:
            return [first, *(each for each in endpoints if each != first)]
        turn = self._turns[place] % max(1, len(endpoints))
        self._turns[place] += 1
        return endpoints[turn:] + endpoints[:turn]

    def _endpoints(self, place: Place) -> list[Endpoint]:
        service = self._names.service_at(place[0])
        ports = (
            [each for each in service.spec.ports if _is_served(each) and each.port == place[1]] if service else []
        )
        return self._names.endpoints(service, ports[0]) if service and ports else []


def _is_served(port: ServicePort) -> bool:
    """Whether connections to a port are led on; datagrams are not."""
    return port.protocol == "TCP"
