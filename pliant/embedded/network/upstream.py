"""Ask the resolvers of this machine, as it would itself."""

from __future__ import annotations

import asyncio
import secrets
import struct
from contextlib import suppress
from pathlib import Path

from pliant.embedded.network.message import Kind, Unreadable, addresses_in, is_cut, is_name, question

_PORT = 53
_PATIENCE = 2.0
"""Seconds for one resolver to answer."""
_LENGTH = struct.Struct("!H")
RESOLVERS = Path("/etc/resolv.conf")


class Upstream:
    """The resolvers outside, asked one after the other until one answers."""

    def __init__(self, servers: tuple[str, ...], port: int = _PORT) -> None:
        self._servers = servers
        self._port = port

    @classmethod
    def of_this_machine(cls, file: Path = RESOLVERS) -> Upstream:
        """The resolvers that programs of this machine ask."""
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        words = (line.split() for line in lines)
        return cls(tuple(each[1] for each in words if len(each) > 1 and each[0] == "nameserver"))

    @property
    def is_there(self) -> bool:
        """Whether there is anybody to ask."""
        return bool(self._servers)

    async def ask(self, message: bytes, *, by_stream: bool) -> bytes | None:
        """What the first of them answers that answers at all."""
        for server in self._servers:
            with suppress(OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_PATIENCE):
                    return await (self._by_stream if by_stream else self._by_datagram)(server, message)
        return None

    async def addresses(self, name: str) -> list[str]:
        """The addresses of a name outside, those of the older kind if it has any."""
        if not is_name(name):
            return []
        for kind in (Kind.A, Kind.AAAA):
            message = question(secrets.randbits(16), name, kind)
            heard = await self.ask(message, by_stream=False)
            if heard is not None and is_cut(heard):
                heard = await self.ask(message, by_stream=True)
            with suppress(Unreadable):
                if heard is not None and (found := addresses_in(heard)):
                    return found
        return []

    async def _by_datagram(self, server: str, message: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        transport, waiting = await loop.create_datagram_endpoint(
            lambda: _OneAnswer(message[:2]), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(message)
            return await waiting.heard
        finally:
            transport.close()

    async def _by_stream(self, server: str, message: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(_LENGTH.pack(len(message)) + message)
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            return await reader.readexactly(length)
        finally:
            writer.close()


class _OneAnswer(asyncio.DatagramProtocol):
    """Waits for the answer to one question, known by its number."""

    def __init__(self, number: bytes) -> None:
        self._number = number
        self.heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data[:2] == self._number and not self.heard.done():
            self.heard.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.heard.done():
            self.heard.set_exception(exc)
