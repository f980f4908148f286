"""A minimal HTTP server for health pages, metrics and progress reports; malformed requests never affect the program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from socket import socket
from typing import Any

from pliant.runtime.accept import accept_connections, bind_sockets, max_connections

REQUEST_TIMEOUT_SECONDS = 5.0  # seconds after which an unfinished request is dropped, or a client that does not read
RESPONSE_TIMEOUT_SECONDS = 65.0  # seconds that the handler of an authorized request may take
MAX_HEADER_BYTES = 8192
MAX_POST_BODY_BYTES = 4096
MAX_LENGTH_DIGITS = 10
MAX_CONNECTIONS = 512  # of each server; the oldest one is aborted for a new one
MAX_AUTHORIZED_CONNECTIONS = 20_000  # of each server, in addition: requests that are authorized and wait for a response
WRITE_CHUNK_BYTES = 32 * 1024  # of a response are buffered for each client


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str = "POST"
    path: str
    query: str = ""
    headers: Mapping[str, str]  # names are in lower case
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    text: str = ""
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    parts: tuple[bytes, ...] = ()
    """The encoded body instead of a text, in parts that many responses may share."""

    def encode(self, *, with_body: bool = True) -> Iterator[bytes]:
        """Yield the response in parts."""
        body = self.parts or ((f"{self.text.rstrip()}\n".encode(),) if self.text else ())
        lines = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {sum(map(len, body))}",
            "Connection: close",
        )
        head = "\r\n".join((*lines, "", "")).encode()
        first, *others = body if with_body and body else (b"",)
        yield head + first
        yield from others


HttpPages = Mapping[str, Callable[[], HttpResponse]]
EventualResponse = HttpResponse | Coroutine[Any, Any, HttpResponse]
"""A response, or what returns one later. A handler may return the latter only to clients that it has authorized."""
RequestHandler = Callable[[HttpRequest], EventualResponse]
ListenAddress = socket | tuple[str | None, int]
"""A listening socket, or host and port; no host means every address, port 0 any free port."""
_Respond = Callable[[asyncio.StreamReader], Awaitable[EventualResponse | bytes]]


@asynccontextmanager
async def serve_pages(pages: HttpPages, host: str | None, port: int) -> AsyncIterator[int]:
    """Serve pages while the block runs, and yield the port."""

    async def respond(reader: asyncio.StreamReader) -> bytes:
        method, path, _, _ = await _read_head(reader)
        page = pages.get(path)
        if method not in ("GET", "HEAD"):
            response = HttpResponse("method not allowed: use GET or HEAD", HTTPStatus.METHOD_NOT_ALLOWED)
        elif page is None:
            response = HttpResponse(f"not found; available paths: {', '.join(pages)}", HTTPStatus.NOT_FOUND)
        else:
            response = page()
        return b"".join(response.encode(with_body=method != "HEAD"))

    async with _serve(respond, (host, port)) as actual_port:
        yield actual_port


@asynccontextmanager
async def serve_requests(handle: RequestHandler, address: ListenAddress) -> AsyncIterator[None]:
    """Serve GET and POST requests while the block runs."""

    async def respond(reader: asyncio.StreamReader) -> EventualResponse:
        try:
            return await _handle_request(reader, handle)
        except asyncio.LimitOverrunError:
            too_large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return HttpResponse("the request headers are too long", too_large)

    async with _serve(respond, address):
        yield


class _Connections:
    """The connections of a server.

    A new connection is always served: idle clients must not keep the kubelet's probes from being answered. Authorized
    requests that wait for a response do not count as idle, and have a limit of their own.
    """

    def __init__(self) -> None:
        self._idle: dict[asyncio.Task[None], None] = {}  # oldest first
        self._authorized: set[asyncio.Task[None]] = set()
        self._idle_limit = min(MAX_CONNECTIONS, max_connections())
        self._authorized_limit = min(MAX_AUTHORIZED_CONNECTIONS, max_connections(share=2))

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [*self._idle, *self._authorized]

    def add(self, connection: socket, respond: _Respond) -> None:
        if len(self._idle) >= self._idle_limit:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.cancel()
        task = asyncio.create_task(_serve_connection(connection, respond, self))
        self._idle[task] = None
        task.add_done_callback(self._discard)
        # A task that is cancelled before it starts leaves the socket open.
        task.add_done_callback(lambda done: connection.close() if done.cancelled() else None)

    def authorize(self, task: asyncio.Task[None]) -> bool:
        """Count a connection as authorized; return whether there is room."""
        if len(self._authorized) >= self._authorized_limit:
            return False
        self._idle.pop(task, None)
        self._authorized.add(task)
        return True

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._idle.pop(task, None)
        self._authorized.discard(task)


@asynccontextmanager
async def _serve(respond: _Respond, address: ListenAddress) -> AsyncIterator[int]:
    """Serve one request per connection while the block runs, and yield the port."""
    connections = _Connections()

    def add_connection(connection: socket) -> None:
        connections.add(connection, respond)

    listeners = [address] if isinstance(address, socket) else await bind_sockets(*address)
    for listener in listeners:
        listener.listen()  # now: clients may connect as soon as the block runs
    tasks = [asyncio.create_task(accept_connections(listener, add_connection)) for listener in listeners]
    try:
        yield listeners[0].getsockname()[1]
    finally:
        tasks += connections.tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in listeners:
            listener.close()


class _ConnectionProtocol(asyncio.StreamReaderProtocol):
    """Calls `on_disconnect` once the client has closed its side of the connection."""

    on_disconnect: Callable[[], object] | None = None

    def eof_received(self) -> bool | None:
        if self.on_disconnect is not None:
            self.on_disconnect()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.on_disconnect is not None:
            self.on_disconnect()
        super().connection_lost(exc)


async def _serve_connection(connection: socket, respond: _Respond, connections: _Connections) -> None:
    """Answer one request; a task that is cancelled aborts the connection."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_HEADER_BYTES)
    transport, protocol = await loop.create_connection(lambda: _ConnectionProtocol(reader), sock=connection)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    try:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                response = await respond(reader)
            if isinstance(response, Coroutine):
                response = await _await_response(response, reader, protocol, connections)
            await _write_response(writer, response)
    except asyncio.CancelledError:
        transport.abort()
        raise
    finally:
        writer.close()


async def _await_response(
    response: Coroutine[Any, Any, HttpResponse],
    reader: asyncio.StreamReader,
    protocol: _ConnectionProtocol,
    connections: _Connections,
) -> HttpResponse:
    """Wait for the response to an authorized request; a client that disconnects cancels the task."""
    task = asyncio.current_task()
    assert task is not None
    if reader.at_eof():
        response.close()
        raise ConnectionResetError("the client has disconnected")
    if not connections.authorize(task):
        response.close()
        return HttpResponse("too many requests wait; try again later", HTTPStatus.SERVICE_UNAVAILABLE)
    protocol.on_disconnect = task.cancel
    try:
        async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
            return await response
    finally:
        protocol.on_disconnect = None


async def _write_response(writer: asyncio.StreamWriter, response: HttpResponse | bytes) -> None:
    """Write a response in chunks, so that a client that reads slowly does not cost the memory of a whole one."""
    writer.transport.set_write_buffer_limits(high=WRITE_CHUNK_BYTES)
    for part in (response,) if isinstance(response, bytes) else response.encode():
        view = memoryview(part)
        for start in range(0, len(view), WRITE_CHUNK_BYTES):
            writer.write(view[start : start + WRITE_CHUNK_BYTES])
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                await writer.drain()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, str, dict[str, str]]:
    """Read a request up to its body; return method, path, query and headers."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    path, _, query = rest.partition(" ")[0].partition("?")
    return method, path, query, headers


async def _handle_request(reader: asyncio.StreamReader, handle: RequestHandler) -> EventualResponse:
    method, path, query, headers = await _read_head(reader)
    if method == "GET":
        return handle(HttpRequest(method=method, path=path, query=query, headers=headers))
    length = headers.get("content-length", "")
    if method != "POST":
        return HttpResponse("method not allowed: use GET or POST", HTTPStatus.METHOD_NOT_ALLOWED)
    if not (length.isascii() and length.isdigit()):
        return HttpResponse("Content-Length is missing", HTTPStatus.LENGTH_REQUIRED)
    # Python does not convert thousands of digits to a number.
    if len(length) > MAX_LENGTH_DIGITS or int(length) > MAX_POST_BODY_BYTES:
        return HttpResponse(f"the body exceeds {MAX_POST_BODY_BYTES} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    body = await reader.readexactly(int(length))
    return handle(HttpRequest(path=path, query=query, headers=headers, body=body))
