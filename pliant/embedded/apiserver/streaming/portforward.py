"""Port forwarding: SPDY through a WebSocket, with a data stream and an error stream for each connection."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from pliant.embedded.apiserver.streaming import spdy
from pliant.embedded.apiserver.streaming.sessions import PortConnector

PORT_FORWARD_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_READ_CHUNK_BYTES = 1 << 15
_MAX_PORT = 65535


@dataclass(slots=True)
class _ForwardedConnection:
    port: int = 0
    data_stream: int = 0
    error_stream: int = 0
    received: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(64))
    """Data from the client; b"" marks its end."""


def connection_error_message(port: int, error: OSError) -> bytes:
    """Return the content of the error stream of a connection that cannot be opened."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"error forwarding port {port} to the pod: {reason}".encode()


async def forward_ports(websocket: web.WebSocketResponse, connect: PortConnector) -> None:
    """Forward connections to the ports of a pod until the client disconnects."""
    with suppress(ConnectionError, spdy.SpdyProtocolError):
        async with asyncio.TaskGroup() as tasks:
            await _PortForwarder(websocket, connect, tasks).run()
    with suppress(ConnectionError):
        await websocket.close()


class _PortForwarder:
    def __init__(self, websocket: web.WebSocketResponse, connect: PortConnector, tasks: asyncio.TaskGroup) -> None:
        self._websocket = websocket
        self._connect = connect
        self._tasks = tasks
        self._codec = spdy.SpdyCodec()
        self._pending_connections: dict[str, _ForwardedConnection] = {}
        self._connection_by_stream: dict[int, _ForwardedConnection] = {}
        self._connection_tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            async for message in self._websocket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._codec.decode_frames(message.data):
                        await self._handle_frame(frame)
        finally:
            for task in list(self._connection_tasks):
                task.cancel()

    async def _handle_frame(self, frame: spdy.SpdyFrame) -> None:
        match frame:
            case spdy.SynStreamFrame():
                await self._open_stream(frame)
            case spdy.DataFrame(stream, content, is_last):
                connection = self._connection_by_stream.get(stream)
                if connection is not None and stream == connection.data_stream:
                    if content:
                        await connection.received.put(content)
                    if is_last:
                        await connection.received.put(b"")
            case spdy.RstStreamFrame(stream):
                connection = self._connection_by_stream.pop(stream, None)
                if connection is not None and stream == connection.data_stream:
                    await connection.received.put(b"")
            case spdy.PingFrame():
                await self._websocket.send_bytes(spdy.encode_pong(frame))

    async def _open_stream(self, frame: spdy.SynStreamFrame) -> None:
        headers = {name.lower(): value for name, value in frame.headers.items()}
        stream_type, port = headers.get("streamtype"), headers.get("port", "")
        if stream_type not in ("data", "error") or not (port.isdecimal() and 0 < int(port) <= _MAX_PORT):
            await self._websocket.send_bytes(spdy.encode_reset(frame.stream_id))
            return
        request_id = headers.get("requestid", port)
        connection = self._pending_connections.setdefault(request_id, _ForwardedConnection(port=int(port)))
        self._connection_by_stream[frame.stream_id] = connection
        if stream_type == "data":
            connection.data_stream = frame.stream_id
        else:
            connection.error_stream = frame.stream_id
        await self._websocket.send_bytes(self._codec.encode_syn_reply(frame.stream_id))
        if connection.data_stream and connection.error_stream:
            self._pending_connections.pop(request_id, None)
            task = self._tasks.create_task(self._forward_connection(connection))
            self._connection_tasks.add(task)
            task.add_done_callback(self._connection_tasks.discard)

    async def _forward_connection(self, connection: _ForwardedConnection) -> None:
        message = b""
        with suppress(ConnectionError):  # the client disconnected
            try:
                reader, writer = await self._connect(connection.port)
            except OSError as error:
                message = connection_error_message(connection.port, error)
            else:
                await self._relay_bytes(connection, reader, writer)
            await self._websocket.send_bytes(spdy.encode_data(connection.error_stream, message, is_last=True))
            await self._websocket.send_bytes(spdy.encode_data(connection.data_stream, b"", is_last=True))
        self._connection_by_stream.pop(connection.data_stream, None)
        self._connection_by_stream.pop(connection.error_stream, None)

    async def _relay_bytes(
        self, connection: _ForwardedConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writing = asyncio.create_task(_write_received(connection, writer))
        try:
            with suppress(OSError):
                while content := await reader.read(_READ_CHUNK_BYTES):
                    await self._websocket.send_bytes(spdy.encode_data(connection.data_stream, content))
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            writer.close()


async def _write_received(connection: _ForwardedConnection, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await connection.received.get():
            writer.write(content)
            await writer.drain()
        writer.write_eof()
