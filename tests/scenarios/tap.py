"""A proxy in front of an API server that writes down every request, and can hold one back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import yaml

from pliant.kube.auth.credentials import ANONYMOUS_CREDENTIAL
from pliant.kube.client_config import find_api_server
from pliant.kube.transport.http import ApiServerEndpoint
from pliant.runtime.clock import SystemClock

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Arrival(NamedTuple):
    """A request that arrived, and when on the loop's clock."""

    at: float
    method: str
    path: str
    body: bytes


@dataclass
class Held:
    """The first request of a kind: it has left its sender, and arrives only when let go."""

    wanted: Callable[[Arrival], bool]
    caught: asyncio.Event = field(default_factory=asyncio.Event)
    may_go: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Future[bytes] = field(default_factory=asyncio.Future)
    """How the server answered it in the end."""


class Tap:
    """Speaks plain HTTP to one client, and to the server as the kubeconfig says."""

    def __init__(self, endpoint: ApiServerEndpoint) -> None:
        self.arrivals: list[Arrival] = []
        self._endpoint = endpoint
        self._held: Held | None = None
        self._news = asyncio.Event()

    def hold(self, wanted: Callable[[Arrival], bool]) -> Held:
        """Keep the next request that is wanted; its sender waits, or dies waiting."""
        self._held = Held(wanted)
        return self._held

    async def until(self, wanted: Callable[[Arrival], bool]) -> None:
        """Wait until such a request has arrived."""
        while not any(map(wanted, self.arrivals)):
            self._news.clear()
            await self._news.wait()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until one of its ends has had enough; what arrived before is delivered."""
        try:
            from_server, to_server = await self._connected()
            back = asyncio.create_task(_pump(from_server, writer))
            try:
                while (head := await _head(reader)) is not None:
                    await self._deliver(head, reader, to_server)
            finally:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)
                to_server.transport.abort()
        except (OSError, EOFError):
            return
        finally:
            writer.transport.abort()

    async def _deliver(self, head: bytes, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        method, path, _ = head.split(b" ", 2)
        arrival = Arrival(asyncio.get_running_loop().time(), method.decode(), path.decode(), body)
        self.arrivals.append(arrival)
        self._news.set()
        held = self._held
        if held is not None and held.wanted(arrival):
            self._held = None
            held.caught.set()
            await held.may_go.wait()
            held.answer.set_result(await self._exchange(head, body))
            raise ConnectionResetError
        to_server.write(await self._signed(head) + body)
        await to_server.drain()

    async def _exchange(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await self._connected()
        writer.write(await self._signed(head) + body)
        answer = await reader.readuntil(b"\r\n")
        writer.transport.abort()
        return answer

    async def _connected(self) -> Streams:
        address = urlsplit(self._endpoint.url)
        shown = await self._endpoint.credentials.credential() if self._endpoint.credentials else ANONYMOUS_CREDENTIAL
        context = self._endpoint.tls.build_ssl_context(shown.certificate) if self._endpoint.tls else None
        return await asyncio.open_connection(address.hostname, address.port, ssl=context)

    async def _signed(self, head: bytes) -> bytes:
        shown = await self._endpoint.credentials.credential() if self._endpoint.credentials else ANONYMOUS_CREDENTIAL
        if not shown.authorization:
            return head
        return head[:-2] + f"Authorization: {shown.authorization}\r\n\r\n".encode()


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def tapped(kubeconfig: Path, write: Callable[[str], str]) -> AsyncIterator[tuple[Tap, str]]:
    """A tap to the server of a kubeconfig, and the name of a kubeconfig that goes through it."""
    tap = Tap(find_api_server(kubeconfig, None, {}, SystemClock().now))
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(tap.carry(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tap",
        "clusters": [{"name": "tap", "cluster": {"server": url}}],
        "contexts": [{"name": "tap", "context": {"cluster": "tap"}}],
    }
    try:
        yield tap, write(yaml.safe_dump(document))
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()
