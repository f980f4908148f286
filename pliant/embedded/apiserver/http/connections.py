"""The connections of the HTTPS server, with limits and timeouts for those that have not authenticated."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from pliant.runtime.accept import max_connections

MAX_UNAUTHENTICATED_CONNECTIONS = 256
"""Beyond it, the oldest unauthenticated connection is closed for a new one."""
UNAUTHENTICATED_TIMEOUT_SECONDS = 10.0
"""Time for the TLS handshake, and again for the headers of a request with a valid token."""
IDLE_TIMEOUT_SECONDS = 180.0
"""Time between two requests of an authenticated connection; clients of Kubernetes close theirs after 90 s."""
MAX_HEADER_LINE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 1024 * 1024
_CONNECTION_OPTIONS: dict[str, Any] = {
    "access_log": None,
    "max_line_size": MAX_HEADER_LINE_BYTES,
    "max_field_size": MAX_HEADER_LINE_BYTES,
    "keepalive_timeout": IDLE_TIMEOUT_SECONDS,
    "auto_decompress": False,  # bodies are decompressed within their limit of size
    "lingering_time": 0,  # handlers read or discard bodies themselves
}


class _ServerErrorsOnly(logging.Filter):
    """Drops the tracebacks of malformed requests: their clients get the status 400."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log = logging.getLogger(__name__)
_log.addFilter(_ServerErrorsOnly())


class ApiConnection(web.RequestHandler):
    """A connection of a client; the pool may close it until one of its requests is authenticated."""

    def __init__(self, pool: ConnectionPool, server: web.Server, listener_address: object) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), logger=_log, **_CONNECTION_OPTIONS)
        self.listener_address = listener_address
        self.handshake: asyncio.Task[None] | None = None
        self.is_serving = False
        self._pool = pool
        self._header_bytes = 0
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(UNAUTHENTICATED_TIMEOUT_SECONDS, self.abort)

    def data_received(self, data: bytes) -> None:
        # The parser limits each header, but not their sum.
        if self._timeout is not None and not self.is_serving:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self.abort()
                return
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.cancel_timeout()
        self._pool.remove(self)
        super().connection_lost(exc)

    def cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def abort(self) -> None:
        """Close the connection at once, during its TLS handshake or later."""
        self.cancel_timeout()
        self._pool.remove(self)
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    @contextmanager
    def serve_request(self) -> Iterator[None]:
        """Keep the connection from being closed as idle while the block runs."""
        self.is_serving, self._header_bytes = True, 0
        try:
            yield
        finally:
            self.is_serving = False


class ConnectionPool:
    """All connections of a server: at most a quarter of the open files of the process, few of them without a token."""

    def __init__(self, server: web.Server, ssl_context: ssl.SSLContext) -> None:
        self._server = server
        self._ssl_context = ssl_context
        self._max_connections = max_connections()
        self._max_unauthenticated = min(MAX_UNAUTHENTICATED_CONNECTIONS, self._max_connections // 2)
        # Both in the order in which they are closed when there are too many.
        self._unauthenticated: dict[ApiConnection, None] = {}
        self._authenticated: dict[ApiConnection, None] = {}

    def add(self, sock: socket) -> None:
        """Start the TLS handshake of an accepted connection, and close another connection if there are too many."""
        if not self._make_room():
            sock.close()
            return
        connection = ApiConnection(self, self._server, sock.getsockname())
        self._unauthenticated[connection] = None
        connection.handshake = asyncio.create_task(self._perform_handshake(connection, sock))
        # A task that is cancelled before it starts leaves the socket open.
        connection.handshake.add_done_callback(lambda done: sock.close() if done.cancelled() else None)

    def mark_authenticated(self, connection: ApiConnection) -> None:
        """Exempt a connection from the limit of unauthenticated ones; call it for each authenticated request."""
        connection.cancel_timeout()
        self._unauthenticated.pop(connection, None)
        self._authenticated.pop(connection, None)
        self._authenticated[connection] = None  # last: it is the most recently used one

    def remove(self, connection: ApiConnection) -> None:
        self._unauthenticated.pop(connection, None)
        self._authenticated.pop(connection, None)

    def abort_all(self, listener_address: object = None) -> None:
        """Close all connections, or those that one listener accepted."""
        for connection in (*self._unauthenticated, *self._authenticated):
            if listener_address in (None, connection.listener_address):
                connection.abort()

    def _make_room(self) -> bool:
        if len(self._unauthenticated) >= self._max_unauthenticated:
            next(iter(self._unauthenticated)).abort()
        elif len(self._unauthenticated) + len(self._authenticated) >= self._max_connections:
            idle = (each for each in (*self._unauthenticated, *self._authenticated) if not each.is_serving)
            if (oldest := next(idle, None)) is None:
                return False
            oldest.abort()
        return True

    async def _perform_handshake(self, connection: ApiConnection, sock: socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._ssl_context,
                ssl_handshake_timeout=UNAUTHENTICATED_TIMEOUT_SECONDS,
                ssl_shutdown_timeout=UNAUTHENTICATED_TIMEOUT_SECONDS,
            )
        except OSError:  # no TLS, an unknown version of it, or a timeout
            self.remove(connection)
        finally:
            connection.handshake = None
