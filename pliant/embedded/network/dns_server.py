"""The DNS server of the cluster: resolves cluster names itself and forwards other names to the host's resolvers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.network.dns_message import (
    DnsQuestion,
    MalformedDnsMessage,
    ResponseCode,
    encode_response,
    frame_tcp_message,
    parse_query,
    read_tcp_message,
)
from pliant.embedded.network.dns_upstream import DNS_PORT, UpstreamResolver
from pliant.embedded.network.dns_zone import DnsZone
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.network.streams import ConnectionTasks

_IDLE_TIMEOUT = 10.0
_MAX_TCP_SIZE = 65535
_ADDRESS_TIMEOUT = 3.0
"""Seconds that a lookup waits for the address of a pod that is being started; resolvers wait for at least 5."""


class DnsServer:
    def __init__(self, service_index: ServiceIndex, upstream: UpstreamResolver) -> None:
        self._service_index = service_index
        self._zone = DnsZone(service_index)
        self._upstream = upstream
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(
        cls, agent: NodeAgentClient, service_index: ServiceIndex, upstream: UpstreamResolver
    ) -> AsyncIterator[DnsServer]:
        server = cls(service_index, upstream)
        loop = asyncio.get_running_loop()
        datagrams = await agent.open_socket("datagram", agent.gateway_address, DNS_PORT)
        listener = await agent.open_socket("stream", agent.gateway_address, DNS_PORT)
        transport, _ = await loop.create_datagram_endpoint(lambda: _DnsDatagramProtocol(server), sock=datagrams)
        streams = await asyncio.start_server(server.serve_connection, sock=listener)
        try:
            yield server
        finally:
            transport.close()
            streams.close()
            await server._connections.cancel_all()

    def answer_at_once(self, question: DnsQuestion, client_ip: str) -> tuple[Sequence[Any], ResponseCode] | None:
        """Return records and response code; None if the answer is not known yet."""
        local = self._resolve_locally(question, client_ip)
        if local is not None and local[1] is ResponseCode.NXDOMAIN and self._awaits_address(question, client_ip):
            return None
        return local

    async def answer(self, message: bytes, question: DnsQuestion, client_ip: str, *, over_tcp: bool) -> bytes:
        """Return the answer of the cluster, when the address of a starting pod is known, or of an upstream resolver."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ADDRESS_TIMEOUT):
                while self._awaits_address(question, client_ip):
                    await self._service_index.wait_for_publication()
        local = self._resolve_locally(question, client_ip)
        if local is not None:
            max_size = _MAX_TCP_SIZE if over_tcp else question.max_response_size
            return encode_response(question, *local, max_size=max_size)
        response = await self._upstream.query(message, over_tcp=over_tcp)
        return response or encode_response(question, (), ResponseCode.SERVER_FAILURE)

    def _awaits_address(self, question: DnsQuestion, client_ip: str) -> bool:
        return self._zone.awaits_address(question.name, self._client_namespace(client_ip))

    def _resolve_locally(self, question: DnsQuestion, client_ip: str) -> tuple[Sequence[Any], ResponseCode] | None:
        """Return records and response code; None if an upstream resolver must be asked."""
        records = self._zone.find_records(question.name, question.record_type, self._client_namespace(client_ip))
        if records is not None:
            return records, ResponseCode.NO_ERROR
        if self._zone.is_cluster_name(question.name) or not self._upstream.has_servers:
            return (), ResponseCode.NXDOMAIN
        return None

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._connections.spawn(work)

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with (
            self._connections.track(writer),
            suppress(OSError, asyncio.IncompleteReadError, TimeoutError, MalformedDnsMessage),
        ):
            while True:
                message = await asyncio.wait_for(read_tcp_message(reader), _IDLE_TIMEOUT)
                question = parse_query(message)
                client_ip = writer.get_extra_info("peername")[0]
                writer.write(frame_tcp_message(await self.answer(message, question, client_ip, over_tcp=True)))
                await writer.drain()

    def _client_namespace(self, client_ip: str) -> str:
        pod = self._service_index.pod_by_ip(client_ip)
        return pod.metadata.namespace if pod is not None else "default"


class _DnsDatagramProtocol(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._send: Callable[[bytes, Any], None] = _discard_datagram

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._send = cast("asyncio.DatagramTransport", transport).sendto

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            question = parse_query(data)
        except MalformedDnsMessage:
            return
        answer = self._server.answer_at_once(question, addr[0])
        if answer is None:
            self._server.run_in_background(self._answer_later(data, question, addr))
            return
        self._send(encode_response(question, *answer, max_size=question.max_response_size), addr)

    async def _answer_later(self, message: bytes, question: DnsQuestion, client_address: tuple[str, int]) -> None:
        self._send(await self._server.answer(message, question, client_address[0], over_tcp=False), client_address)


def _discard_datagram(data: bytes, addr: Any) -> None: ...
