"""Ask the resolvers of this machine, as it would itself."""

from __future__ import annotations

import asyncio
import secrets
import struct
from contextlib import suppress
from pathlib import Path

from pliant.embedded.network.dns_message import (
    MalformedDnsMessage,
    RecordType,
    encode_query,
    is_encodable_name,
    is_truncated,
    parse_addresses,
)

_DNS_PORT = 53
_QUERY_TIMEOUT = 2.0
"""Seconds for one resolver to answer."""
_LENGTH_PREFIX = struct.Struct("!H")
RESOLV_CONF = Path("/etc/resolv.conf")


class UpstreamResolver:
    """The resolvers outside, asked one after the other until one answers."""

    def __init__(self, servers: tuple[str, ...], port: int = _DNS_PORT) -> None:
        self._servers = servers
        self._port = port

    @classmethod
    def from_host(cls, resolv_conf: Path = RESOLV_CONF) -> UpstreamResolver:
        """The resolvers that programs of this machine ask."""
        try:
            lines = resolv_conf.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        words = (line.split() for line in lines)
        return cls(tuple(each[1] for each in words if len(each) > 1 and each[0] == "nameserver"))

    @property
    def has_servers(self) -> bool:
        """Whether there is anybody to ask."""
        return bool(self._servers)

    async def query(self, message: bytes, *, over_tcp: bool) -> bytes | None:
        """What the first of them answers that answers at all."""
        for server in self._servers:
            with suppress(OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_QUERY_TIMEOUT):
                    return await (self._query_tcp if over_tcp else self._query_udp)(server, message)
        return None

    async def resolve_addresses(self, name: str) -> list[str]:
        """The addresses of a name outside, those of the older kind if it has any."""
        if not is_encodable_name(name):
            return []
        for kind in (RecordType.A, RecordType.AAAA):
            message = encode_query(secrets.randbits(16), name, kind)
            heard = await self.query(message, over_tcp=False)
            if heard is not None and is_truncated(heard):
                heard = await self.query(message, over_tcp=True)
            with suppress(MalformedDnsMessage):
                if heard is not None and (found := parse_addresses(heard)):
                    return found
        return []

    async def _query_udp(self, server: str, message: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        transport, waiting = await loop.create_datagram_endpoint(
            lambda: _SingleResponseProtocol(message[:2]), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(message)
            return await waiting.response
        finally:
            transport.close()

    async def _query_tcp(self, server: str, message: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(_LENGTH_PREFIX.pack(len(message)) + message)
            (length,) = _LENGTH_PREFIX.unpack(await reader.readexactly(_LENGTH_PREFIX.size))
            return await reader.readexactly(length)
        finally:
            writer.close()


class _SingleResponseProtocol(asyncio.DatagramProtocol):
    """Waits for the answer to one question, known by its number."""

    def __init__(self, message_id: bytes) -> None:
        self._message_id = message_id
        self.response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data[:2] == self._message_id and not self.response.done():
            self.response.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.response.done():
            self.response.set_exception(exc)
