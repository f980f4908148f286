"""A line to a server, byte by byte, that a test can cut at the worst of moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class Wire:
    """Carries connections to one address; what is encrypted stays so."""

    def __init__(self, host: str, port: int) -> None:
        self.connections = 0
        self.is_open = True
        """Whether new connections are carried; if not, they end at once."""
        self.loses_replies = False
        """Whether the next thing the server says is lost, and its connection with it."""
        self._target = (host, port)
        self._lines: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    def cut(self) -> None:
        """Break every connection, now."""
        for line in list(self._lines):
            for end in line:
                end.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until one of its ends, or a test, has had enough."""
        self.connections += 1
        if not self.is_open:
            writer.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        line = (writer, to_server)
        self._lines.add(line)
        try:
            async with asyncio.TaskGroup() as tasks:
                there = tasks.create_task(_pump(reader, to_server))
                back = tasks.create_task(self._answers(from_server, writer))
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
                back.cancel()
        finally:
            self._lines.discard(line)
            for end in line:
                end.transport.abort()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65536):
                if self.loses_replies:
                    self.loses_replies = False
                    return
                writer.write(chunk)
                await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()


@asynccontextmanager
async def wired(kubeconfig: Path, folder: Path) -> AsyncIterator[tuple[Wire, Path]]:
    """A line to the server of a kubeconfig, and a kubeconfig that goes through it."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    address = urlsplit(cluster["server"])
    wire = Wire(address.hostname or "", address.port or 443)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    cluster["server"] = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    through = folder / "through-the-wire"
    through.write_text(yaml.safe_dump(document))
    try:
        yield wire, through
    finally:
        server.close()
        wire.cut()
        await server.wait_closed()
