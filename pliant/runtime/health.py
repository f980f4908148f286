"""A few pages for probes and monitors on one small port; whatever a visitor sends, the program goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

PATIENCE = 5.0
"""Seconds that one visit may take."""
LONGEST_REQUEST = 8192


@dataclass(frozen=True, slots=True)
class Page:
    """An answer, made at the moment it is asked for."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Page]]


@asynccontextmanager
async def serving(pages: Pages, host: str | None, port: int) -> AsyncIterator[int]:
    """Answer while the block runs, on every address without a host and on any free port for 0; tells which."""
    visits: set[_Visit] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Visit(pages, visits), host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for visit in list(visits):
            visit.end()
        await server.wait_closed()


class _Visit(asyncio.Protocol):
    """One request and its answer. The connection ends with it: probes come seldom, and nothing waits for them."""

    def __init__(self, pages: Pages, visits: set[_Visit]) -> None:
        self._pages = pages
        self._visits = visits
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request, not for long."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._limit = asyncio.get_running_loop().call_later(PATIENCE, self.end)
        self._visits.add(self)

    def data_received(self, data: bytes) -> None:
        """Answer as soon as the request is complete."""
        self._head += data
        if self._transport.is_closing():
            return
        if b"\r\n\r\n" in self._head:
            self._transport.write(_reply(self._head, self._pages))
            self._transport.close()
        elif len(self._head) > LONGEST_REQUEST:
            self.end()

    def connection_lost(self, problem: Exception | None) -> None:
        """Forget the visit."""
        self._limit.cancel()
        self._visits.discard(self)

    def end(self) -> None:
        """Hang up."""
        self._transport.abort()


def _reply(head: bytes, pages: Pages) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    wanted = pages.get(rest.partition(" ")[0].partition("?")[0])
    if method not in ("GET", "HEAD"):
        page = Page("only GET is answered here\n", HTTPStatus.METHOD_NOT_ALLOWED)
    elif wanted is None:
        page = Page(f"try {', '.join(pages)}\n", HTTPStatus.NOT_FOUND)
    else:
        page = wanted()
    body = page.text.encode()
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == "HEAD" else body)
