"""The way out for programs that know no proxy: connections to well-known ports of addresses outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from socket import socket

from pliant.embedded.kubelet.runtime.node_agent import NodeAgent
from pliant.embedded.network.egress_connector import ConnectionDenied, EgressConnector
from pliant.embedded.network.streams import ConnectionTasks, Stream, splice_streams

WELL_KNOWN_PORTS = (
    *(22, 80, 443, 465, 587, 873, 990, 993, 1433, 1521, 2181, 3000, 3128, 3306, 4000, 4317, 4318, 5000, 5001, 5432),
    *(5672, 6379, 6443, 7687, 8000, 8001, 8080, 8081, 8086, 8088, 8123, 8443, 8883, 8888, 9000, 9042, 9090, 9092),
    *(9200, 9418, 11211, 11434, 27017, 50051),
)
"""Where servers usually are: web, shells, databases, queues, caches, mail, registries.

A listener hears one port of all addresses, and all ports would be too many."""
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - in a network of its own, where every address is outside

log = logging.getLogger(__name__)


class TransparentProxy:
    """Takes connections that pods make to addresses outside, and makes them on their behalf."""

    def __init__(self, connector: EgressConnector) -> None:
        self._connector = connector
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(cls, agent: NodeAgent, connector: EgressConnector) -> AsyncIterator[TransparentProxy]:
        """A way out for all pods; where it cannot be made they still have the proxy."""
        outside = cls(connector)
        opening = (agent.open_socket("stream", _ANY_ADDRESS, port, in_egress=True) for port in WELL_KNOWN_PORTS)
        opened = await asyncio.gather(*opening, return_exceptions=True)
        if problems := [each for each in opened if isinstance(each, BaseException)]:
            log.warning("no way out for programs that know no proxy", extra={"because": str(problems[0])})
        listeners = [each for each in opened if isinstance(each, socket)]
        servers = [await asyncio.start_server(outside.forward_connection, sock=each) for each in listeners]
        try:
            yield outside
        finally:
            for server in servers:
                server.close()
            await outside._connections.cancel_all()

    async def forward_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one connection on to where it was meant to go."""
        here = Stream(reader, writer)
        address, port = writer.get_extra_info("sockname")
        with self._connections.track(writer), suppress(OSError):
            try:
                there = await self._connector.connect(address, port, writer.get_extra_info("peername")[0])
            except ConnectionDenied as refusal:
                log.info("connection refused", extra={"to": f"{address}:{port}", "because": str(refusal)})
                here.abort()
                return
            await splice_streams(here, there)
