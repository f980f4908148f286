"""Queries to the DNS servers of the host."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from pathlib import Path

from pliant.embedded.network.dns_message import (
    MalformedDnsMessage,
    RecordType,
    encode_query,
    frame_tcp_message,
    is_encodable_name,
    is_truncated,
    parse_addresses,
    read_tcp_message,
)

DNS_PORT = 53
_QUERY_TIMEOUT = 2.0
RESOLV_CONF = Path("/etc/resolv.conf")


class UpstreamResolver:
    """The DNS servers of the host, queried in order until one responds."""

    def __init__(self, servers: tuple[str, ...], port: int = DNS_PORT) -> None:
        self._servers = servers
        self._port = port

    @classmethod
    def from_host(cls, resolv_conf: Path = RESOLV_CONF) -> UpstreamResolver:
        try:
            lines = resolv_conf.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        fields = (line.split() for line in lines)
        return cls(tuple(each[1] for each in fields if len(each) > 1 and each[0] == "nameserver"))

    @property
    def has_servers(self) -> bool:
        return bool(self._servers)

    async def query(self, message: bytes, *, over_tcp: bool) -> bytes | None:
        for server in self._servers:
            with suppress(OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_QUERY_TIMEOUT):
                    return await (self._query_tcp if over_tcp else self._query_udp)(server, message)
        return None

    async def resolve_addresses(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a name, or its IPv6 addresses if it has no others."""
        if not is_encodable_name(name):
            return []
        for record_type in (RecordType.A, RecordType.AAAA):
            message = encode_query(secrets.randbits(16), name, record_type)
            response = await self.query(message, over_tcp=False)
            if response is not None and is_truncated(response):
                response = await self.query(message, over_tcp=True)
            with suppress(MalformedDnsMessage):
                if response is not None and (addresses := parse_addresses(response)):
                    return addresses
        return []

    async def _query_udp(self, server: str, message: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(
            lambda: _SingleResponseProtocol(message[:2]), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(message)
            return await protocol.response
        finally:
            transport.close()

    async def _query_tcp(self, server: str, message: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(frame_tcp_message(message))
            return await read_tcp_message(reader)
        finally:
            writer.close()


class _SingleResponseProtocol(asyncio.DatagramProtocol):
    def __init__(self, message_id: bytes) -> None:
        self._message_id = message_id
        self.response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data[:2] == self._message_id and not self.response.done():
            self.response.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.response.done():
            self.response.set_exception(exc)
