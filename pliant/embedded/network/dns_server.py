"""Answer what pods ask about names: the cluster's from memory, others by asking this machine's resolvers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from pliant.embedded.kubelet.runtime.node_agent import NodeAgent
from pliant.embedded.network.dns_message import (
    DnsQuestion,
    MalformedDnsMessage,
    ResponseCode,
    encode_response,
    parse_query,
)
from pliant.embedded.network.dns_upstream import UpstreamResolver
from pliant.embedded.network.dns_zone import DnsZone
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.network.streams import ConnectionTasks

DNS_PORT = 53
_IDLE_TIMEOUT = 10.0
"""Seconds for which a connection may stay silent."""
_LENGTH_PREFIX = struct.Struct("!H")


class DnsServer:
    """Knows what to answer; the kind of connection does not matter to it."""

    def __init__(self, service_index: ServiceIndex, upstream: UpstreamResolver) -> None:
        self._service_index = service_index
        self._zone = DnsZone(service_index)
        self._upstream = upstream
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(
        cls, agent: NodeAgent, service_index: ServiceIndex, upstream: UpstreamResolver
    ) -> AsyncIterator[DnsServer]:
        """A server that pods reach at the bridge's address."""
        server = cls(service_index, upstream)
        loop = asyncio.get_running_loop()
        datagrams = await agent.open_socket("datagram", agent.address, DNS_PORT)
        listener = await agent.open_socket("stream", agent.address, DNS_PORT)
        transport, _ = await loop.create_datagram_endpoint(lambda: _DnsDatagramProtocol(server), sock=datagrams)
        streams = await asyncio.start_server(server.serve_connection, sock=listener)
        try:
            yield server
        finally:
            transport.close()
            streams.close()
            await server._connections.cancel_all()

    def resolve_locally(self, question: DnsQuestion, client_ip: str) -> tuple[Sequence[Any], ResponseCode] | None:
        """Records and code for a question; None when somebody outside must be asked."""
        found = self._zone.find_records(question.name, question.record_type, self._client_namespace(client_ip))
        if found is not None:
            return found, ResponseCode.NO_ERROR
        if self._zone.is_cluster_name(question.name) or not self._upstream.has_servers:
            return (), ResponseCode.NXDOMAIN
        return None

    async def resolve_upstream(self, message: bytes, question: DnsQuestion, *, over_tcp: bool) -> bytes:
        """What resolvers outside answer."""
        heard = await self._upstream.query(message, over_tcp=over_tcp)
        return heard or encode_response(question, (), ResponseCode.SERVER_FAILURE)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background for as long as the server runs."""
        self._connections.spawn(work)

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one connection."""
        with (
            self._connections.track(writer),
            suppress(OSError, asyncio.IncompleteReadError, TimeoutError, MalformedDnsMessage),
        ):
            while True:
                message = await asyncio.wait_for(_read_tcp_message(reader), _IDLE_TIMEOUT)
                question = parse_query(message)
                known = self.resolve_locally(question, writer.get_extra_info("peername")[0])
                if known is not None:
                    reply = encode_response(question, *known)
                else:
                    reply = await self.resolve_upstream(message, question, over_tcp=True)
                writer.write(_LENGTH_PREFIX.pack(len(reply)) + reply)
                await writer.drain()

    def _client_namespace(self, client_ip: str) -> str:
        pod = self._service_index.pod_by_ip(client_ip)
        return pod.metadata.namespace if pod is not None else "default"


class _DnsDatagramProtocol(asyncio.DatagramProtocol):
    """Answers each datagram with another."""

    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._send: Callable[[bytes, Any], None] = _discard_datagram

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._send = cast("asyncio.DatagramTransport", transport).sendto

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            question = parse_query(data)
        except MalformedDnsMessage:
            return  # it is no question: whoever sent it waits for no answer
        known = self._server.resolve_locally(question, addr[0])
        if known is None:
            self._server.run_in_background(self._answer_from_upstream(data, question, addr))
            return
        self._send(encode_response(question, *known, max_size=question.max_response_size), addr)

    async def _answer_from_upstream(
        self, message: bytes, question: DnsQuestion, client_address: tuple[str, int]
    ) -> None:
        self._send(await self._server.resolve_upstream(message, question, over_tcp=False), client_address)


async def _read_tcp_message(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH_PREFIX.unpack(await reader.readexactly(_LENGTH_PREFIX.size))
    return await reader.readexactly(length)


def _discard_datagram(data: bytes, addr: Any) -> None:
    """Nobody is connected yet."""
