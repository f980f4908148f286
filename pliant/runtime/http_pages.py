"""An HTTP server for health and metrics pages; malformed requests never affect the program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

REQUEST_TIMEOUT = 5.0
"""Seconds after which an unfinished request is aborted."""
MAX_REQUEST_BYTES = 8192


@dataclass(frozen=True, slots=True)
class HttpPage:
    text: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


HttpPages = Mapping[str, Callable[[], HttpPage]]


@asynccontextmanager
async def serve_pages(pages: HttpPages, host: str | None, port: int) -> AsyncIterator[int]:
    """Serve pages while the block runs and yield the port; no host means every address, port 0 any free port."""
    connections: set[_PageConnection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _PageConnection(pages, connections), host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(connections):
            connection.abort()
        await server.wait_closed()


class _PageConnection(asyncio.Protocol):
    """One request and its response; the connection is then closed, as probes are rare."""

    def __init__(self, pages: HttpPages, connections: set[_PageConnection]) -> None:
        self._pages = pages
        self._connections = connections
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timeout = asyncio.get_running_loop().call_later(REQUEST_TIMEOUT, self.abort)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._request += data
        if self._transport.is_closing():
            return
        if b"\r\n\r\n" in self._request:
            self._transport.write(_render_response(self._request, self._pages))
            self._transport.close()
        elif len(self._request) > MAX_REQUEST_BYTES:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._timeout.cancel()
        self._connections.discard(self)

    def abort(self) -> None:
        self._transport.abort()


def _render_response(request: bytes, pages: HttpPages) -> bytes:
    method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    handler = pages.get(rest.partition(" ")[0].partition("?")[0])
    if method not in ("GET", "HEAD"):
        page = HttpPage("method not allowed: use GET or HEAD\n", HTTPStatus.METHOD_NOT_ALLOWED)
    elif handler is None:
        page = HttpPage(f"not found; available paths: {', '.join(pages)}\n", HTTPStatus.NOT_FOUND)
    else:
        page = handler()
    body = page.text.encode()
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == "HEAD" else body)
