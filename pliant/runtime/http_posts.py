"""An HTTP server for small POST requests; it answers at once and never queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from socket import socket

REQUEST_TIMEOUT = 5.0
"""Seconds after which an unfinished request is dropped."""
MAX_HEADER_BYTES = 8192
MAX_BODY_BYTES = 4096
MAX_CONNECTIONS = 512
"""Concurrent connections; further ones are aborted, since every message posted here is expendable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRequest:
    path: str
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class PostResponse:
    text: str = ""
    status: HTTPStatus = HTTPStatus.OK


class _RejectedPost(Exception):
    """The request is rejected with this response."""

    def __init__(self, text: str, status: HTTPStatus) -> None:
        super().__init__(text)
        self.response = PostResponse(text, status)


PostHandler = Callable[[PostRequest], PostResponse]


@asynccontextmanager
async def serve_posts(handle: PostHandler, address: socket | tuple[str | None, int]) -> AsyncIterator[None]:
    """Serve POST requests while the block runs, on a listening socket or at (host, port)."""
    connections: set[asyncio.StreamWriter] = set()

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        connections.add(writer)
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    writer.write(_render_response(await _handle_post(reader, handle)))
                    await writer.drain()
        finally:
            connections.discard(writer)
            writer.close()

    listen_on = {"sock": address} if isinstance(address, socket) else {"host": address[0], "port": address[1]}
    server = await asyncio.start_server(handle_connection, limit=MAX_HEADER_BYTES, **listen_on)
    try:
        yield
    finally:
        server.close()
        for writer in list(connections):
            writer.transport.abort()
        await server.wait_closed()


async def _handle_post(reader: asyncio.StreamReader, handle: PostHandler) -> PostResponse:
    try:
        return handle(await _read_post(reader))
    except _RejectedPost as rejected:
        return rejected.response
    except asyncio.LimitOverrunError:
        return PostResponse("the request headers are too long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


async def _read_post(reader: asyncio.StreamReader) -> PostRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if method != "POST":
        raise _RejectedPost("method not allowed: use POST", HTTPStatus.METHOD_NOT_ALLOWED)
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise _RejectedPost("Content-Length is missing", HTTPStatus.LENGTH_REQUIRED)
    if int(length) > MAX_BODY_BYTES:
        raise _RejectedPost(f"the body exceeds {MAX_BODY_BYTES} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    body = await reader.readexactly(int(length))
    return PostRequest(path=rest.partition(" ")[0].partition("?")[0], headers=headers, body=body)


def _render_response(response: PostResponse) -> bytes:
    body = f"{response.text}\n".encode() if response.text else b""
    lines = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
