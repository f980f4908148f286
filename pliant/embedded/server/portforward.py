"""Ports of pods at the user's side: SPDY streams through a WebSocket, a pair of them for each connection."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from pliant.embedded.server import spdy
from pliant.embedded.server.sessions import Connect

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_PIECE = 1 << 15
_LAST_PORT = 65535


@dataclass(slots=True)
class _Pair:
    """The two streams of one connection: what it carries, and what is wrong with it."""

    port: int = 0
    data: int = 0
    error: int = 0
    heard: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(64))
    """What the user sent; nothing at the end of it."""


async def forward(socket: web.WebSocketResponse, connect: Connect) -> None:
    """Carry connections to a pod until the user leaves."""
    with suppress(ConnectionError, spdy.NotSpdy):
        async with asyncio.TaskGroup() as tasks:
            await _Forwarding(socket, connect, tasks).run()
    with suppress(ConnectionError):
        await socket.close()


class _Forwarding:
    """One user, one pod, any number of connections."""

    def __init__(self, socket: web.WebSocketResponse, connect: Connect, tasks: asyncio.TaskGroup) -> None:
        self._socket = socket
        self._connect = connect
        self._tasks = tasks
        self._framing = spdy.Framing()
        self._pairs: dict[str, _Pair] = {}
        self._streams: dict[int, _Pair] = {}
        self._carriers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Listen to the user; at the end nothing is left open."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._framing.read(message.data):
                        await self._hear(frame)
        finally:
            for carrier in list(self._carriers):
                carrier.cancel()

    async def _hear(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.Opened():
                await self._open(frame)
            case spdy.Data(stream, content, is_last):
                pair = self._streams.get(stream)
                if pair is not None and stream == pair.data:
                    if content:
                        await pair.heard.put(content)
                    if is_last:
                        await pair.heard.put(b"")
            case spdy.Reset(stream):
                pair = self._streams.pop(stream, None)
                if pair is not None and stream == pair.data:
                    await pair.heard.put(b"")
            case spdy.Ping():
                await self._socket.send_bytes(spdy.pong(frame))

    async def _open(self, asked: spdy.Opened) -> None:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        kind, port = headers.get("streamtype"), headers.get("port", "")
        if kind not in ("data", "error") or not (port.isdecimal() and 0 < int(port) <= _LAST_PORT):
            await self._socket.send_bytes(spdy.reset(asked.stream))
            return
        pair = self._pairs.setdefault(headers.get("requestid", port), _Pair(port=int(port)))
        self._streams[asked.stream] = pair
        if kind == "data":
            pair.data = asked.stream
        else:
            pair.error = asked.stream
        await self._socket.send_bytes(self._framing.accepted(asked.stream))
        if pair.data and pair.error:
            self._pairs.pop(headers.get("requestid", port), None)
            carrier = self._tasks.create_task(self._carry(pair))
            self._carriers.add(carrier)
            carrier.add_done_callback(self._carriers.discard)

    async def _carry(self, pair: _Pair) -> None:
        """One connection, from its first byte to its last."""
        problem = b""
        with suppress(ConnectionError):  # the user left: nobody is there to be told
            try:
                reader, writer = await self._connect(pair.port)
            except OSError as refusal:
                why = os.strerror(refusal.errno).lower() if refusal.errno else str(refusal)
                problem = f"error forwarding port {pair.port} to the pod: {why}".encode()
            else:
                await self._join(pair, reader, writer)
            await self._socket.send_bytes(spdy.data(pair.error, problem, is_last=True))
            await self._socket.send_bytes(spdy.data(pair.data, b"", is_last=True))
        self._streams.pop(pair.data, None)
        self._streams.pop(pair.error, None)

    async def _join(self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending = asyncio.create_task(_send(pair, writer))
        try:
            with suppress(OSError):
                while content := await reader.read(_PIECE):
                    await self._socket.send_bytes(spdy.data(pair.data, content))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()


async def _send(pair: _Pair, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await pair.heard.get():
            writer.write(content)
            await writer.drain()
        writer.write_eof()
