"""Answer what pods ask about names: the cluster's from memory, others by asking this machine's resolvers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from pliant.embedded.names import Names
from pliant.embedded.network.connections import Connections
from pliant.embedded.network.message import Code, Question, Unreadable, answer, read_question
from pliant.embedded.network.upstream import Upstream
from pliant.embedded.network.zone import Zone
from pliant.embedded.node.link import NodeAgent

PORT = 53
_IDLE = 10.0
"""Seconds for which a connection may stay silent."""
_LENGTH = struct.Struct("!H")


class DnsServer:
    """Knows what to answer; the kind of connection does not matter to it."""

    def __init__(self, names: Names, upstream: Upstream) -> None:
        self._names = names
        self._zone = Zone(names)
        self._upstream = upstream
        self._connections = Connections()

    @classmethod
    @asynccontextmanager
    async def serving(cls, agent: NodeAgent, names: Names, upstream: Upstream) -> AsyncIterator[DnsServer]:
        """A server that pods reach at the bridge's address."""
        server = cls(names, upstream)
        loop = asyncio.get_running_loop()
        datagrams = await agent.open_socket("datagram", agent.address, PORT)
        listener = await agent.open_socket("stream", agent.address, PORT)
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(server), sock=datagrams)
        streams = await asyncio.start_server(server.converse, sock=listener)
        try:
            yield server
        finally:
            transport.close()
            streams.close()
            await server._connections.end()

    def known(self, question: Question, asker: str) -> tuple[Sequence[Any], Code] | None:
        """Records and code for a question; None when somebody outside must be asked."""
        found = self._zone.records(question.name, question.kind, self._namespace_of(asker))
        if found is not None:
            return found, Code.FINE
        if self._zone.is_ours(question.name) or not self._upstream.is_there:
            return (), Code.NO_SUCH_NAME
        return None

    async def asked_outside(self, message: bytes, question: Question, *, by_stream: bool) -> bytes:
        """What resolvers outside answer."""
        heard = await self._upstream.ask(message, by_stream=by_stream)
        return heard or answer(question, (), Code.FAILED)

    def own(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background for as long as the server runs."""
        self._connections.begin(work)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one connection."""
        with (
            self._connections.noted(writer),
            suppress(OSError, asyncio.IncompleteReadError, TimeoutError, Unreadable),
        ):
            while True:
                message = await asyncio.wait_for(_next_message(reader), _IDLE)
                question = read_question(message)
                known = self.known(question, writer.get_extra_info("peername")[0])
                if known is not None:
                    reply = answer(question, *known)
                else:
                    reply = await self.asked_outside(message, question, by_stream=True)
                writer.write(_LENGTH.pack(len(reply)) + reply)
                await writer.drain()

    def _namespace_of(self, asker: str) -> str:
        pod = self._names.pod_at(asker)
        return pod.metadata.namespace if pod is not None else "default"


class _Datagrams(asyncio.DatagramProtocol):
    """Answers each datagram with another."""

    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._send: Callable[[bytes, Any], None] = _drop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._send = cast("asyncio.DatagramTransport", transport).sendto

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            question = read_question(data)
        except Unreadable:
            return  # it is no question: whoever sent it waits for no answer
        known = self._server.known(question, addr[0])
        if known is None:
            self._server.own(self._ask_outside(data, question, addr))
            return
        self._send(answer(question, *known, room=question.room), addr)

    async def _ask_outside(self, message: bytes, question: Question, asker: tuple[str, int]) -> None:
        self._send(await self._server.asked_outside(message, question, by_stream=False), asker)


async def _next_message(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)


def _drop(data: bytes, addr: Any) -> None:
    """Nobody is connected yet."""
