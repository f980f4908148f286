"""A minimal HTTP server for health pages, metrics and progress reports; malformed requests never affect the program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from socket import socket

from pliant.runtime.accept import accept_connections, bind_sockets, max_connections

REQUEST_TIMEOUT_SECONDS = 5.0  # seconds after which an unfinished request is dropped
MAX_HEADER_BYTES = 8192
MAX_POST_BODY_BYTES = 4096
MAX_LENGTH_DIGITS = 10
MAX_CONNECTIONS = 512  # of each server; the oldest one is aborted for a new one


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRequest:
    path: str
    headers: Mapping[str, str]  # names are in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpResponse:
    text: str = ""
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"

    def encode(self, *, with_body: bool = True) -> bytes:
        body = f"{self.text.rstrip()}\n".encode() if self.text else b""
        lines = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", "")).encode() + (body if with_body else b"")


HttpPages = Mapping[str, Callable[[], HttpResponse]]
PostHandler = Callable[[PostRequest], HttpResponse]
ListenAddress = socket | tuple[str | None, int]
"""A listening socket, or host and port; no host means every address, port 0 any free port."""


@asynccontextmanager
async def serve_pages(pages: HttpPages, host: str | None, port: int) -> AsyncIterator[int]:
    """Serve pages while the block runs, and yield the port."""

    async def respond(reader: asyncio.StreamReader) -> bytes:
        method, path, _ = await _read_head(reader)
        page = pages.get(path)
        if method not in ("GET", "HEAD"):
            response = HttpResponse("method not allowed: use GET or HEAD", HTTPStatus.METHOD_NOT_ALLOWED)
        elif page is None:
            response = HttpResponse(f"not found; available paths: {', '.join(pages)}", HTTPStatus.NOT_FOUND)
        else:
            response = page()
        return response.encode(with_body=method != "HEAD")

    async with _serve(respond, (host, port)) as actual_port:
        yield actual_port


@asynccontextmanager
async def serve_posts(handle: PostHandler, address: ListenAddress) -> AsyncIterator[None]:
    """Serve POST requests while the block runs."""

    async def respond(reader: asyncio.StreamReader) -> bytes:
        try:
            return (await _handle_post(reader, handle)).encode()
        except asyncio.LimitOverrunError:
            too_large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return HttpResponse("the request headers are too long", too_large).encode()

    async with _serve(respond, address):
        yield


@asynccontextmanager
async def _serve(
    respond: Callable[[asyncio.StreamReader], Awaitable[bytes]], address: ListenAddress
) -> AsyncIterator[int]:
    """Serve one request per connection while the block runs, and yield the port.

    A new connection is always served: idle clients must not keep the kubelet's probes from being answered.
    """
    connections: dict[asyncio.Task[None], None] = {}  # oldest first
    connection_limit = min(MAX_CONNECTIONS, max_connections())

    def add_connection(connection: socket) -> None:
        if len(connections) >= connection_limit:
            oldest = next(iter(connections))
            del connections[oldest]
            oldest.cancel()
        task = asyncio.create_task(_serve_connection(connection, respond))
        connections[task] = None
        task.add_done_callback(lambda done: connections.pop(done, None))
        # A task that is cancelled before it starts leaves the socket open.
        task.add_done_callback(lambda done: connection.close() if done.cancelled() else None)

    listeners = [address] if isinstance(address, socket) else await bind_sockets(*address)
    for listener in listeners:
        listener.listen()  # now: clients may connect as soon as the block runs
    tasks = [asyncio.create_task(accept_connections(listener, add_connection)) for listener in listeners]
    try:
        yield listeners[0].getsockname()[1]
    finally:
        tasks += connections
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in listeners:
            listener.close()


async def _serve_connection(connection: socket, respond: Callable[[asyncio.StreamReader], Awaitable[bytes]]) -> None:
    """Answer one request; a task that is cancelled aborts the connection."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_HEADER_BYTES)
    try:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                writer.write(await respond(reader))
                await writer.drain()
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    finally:
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]]:
    """Read a request up to its body; return method, path and headers."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    return method, rest.partition(" ")[0].partition("?")[0], headers


async def _handle_post(reader: asyncio.StreamReader, handle: PostHandler) -> HttpResponse:
    method, path, headers = await _read_head(reader)
    length = headers.get("content-length", "")
    if method != "POST":
        return HttpResponse("method not allowed: use POST", HTTPStatus.METHOD_NOT_ALLOWED)
    if not (length.isascii() and length.isdigit()):
        return HttpResponse("Content-Length is missing", HTTPStatus.LENGTH_REQUIRED)
    # Python does not convert thousands of digits to a number.
    if len(length) > MAX_LENGTH_DIGITS or int(length) > MAX_POST_BODY_BYTES:
        return HttpResponse(f"the body exceeds {MAX_POST_BODY_BYTES} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return handle(PostRequest(path=path, headers=headers, body=await reader.readexactly(int(length))))
