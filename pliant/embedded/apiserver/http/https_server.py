"""The listeners of the HTTPS server of the embedded API."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from importlib import import_module
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import TYPE_CHECKING

from pliant.embedded.apiserver.auth.cluster_credentials import SERVING_CERT_NAMES
from pliant.embedded.apiserver.server import ApiServer
from pliant.runtime.accept import LISTEN_BACKLOG, accept_connections

if TYPE_CHECKING:
    from pliant.embedded.apiserver.http.api_application import ApiApplication

_APPLICATION_MODULE = "pliant.embedded.apiserver.http.api_application"


def bind_loopback_socket(port: int = 0) -> socket:
    """Return a socket bound to 127.0.0.1; port 0 selects a free port."""
    listener = socket(AF_INET, SOCK_STREAM)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


class HttpsServer:
    """Serves HTTPS on any number of sockets, which can be added while it runs.

    The web application is loaded when the first client connects: this takes longer than the rest of the start of a
    cluster, and most runs of jobs have no client.
    """

    def __init__(
        self,
        api: ApiServer,
        admin_token: str,
        create_ssl_context: Callable[[], ssl.SSLContext],
        allowed_hosts: Collection[str],
    ) -> None:
        self._api = api
        self._admin_token = admin_token
        self._create_ssl_context = create_ssl_context
        self._allowed_hosts = {*SERVING_CERT_NAMES, *allowed_hosts}
        self._listeners: dict[socket, asyncio.Task[None]] = {}
        self._application: ApiApplication | None = None
        self._loading = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        api: ApiServer,
        *,
        admin_token: str,
        create_ssl_context: Callable[[], ssl.SSLContext],
        allowed_hosts: Collection[str] = (),
    ) -> AsyncIterator[HttpsServer]:
        """Start a server for the names in its certificate and for `allowed_hosts`; call `listen` to add sockets."""
        server = cls(api, admin_token, create_ssl_context, allowed_hosts)
        try:
            yield server
        finally:
            await server.stop()

    async def add_listener(self, listener: socket) -> None:
        """Serve on one more bound socket until the server stops, then close it."""
        self._start_listener(listener)

    @asynccontextmanager
    async def temporary_listener(self, listener: socket) -> AsyncIterator[None]:
        """Serve on one more bound socket; on exit, close it and abort the connections that came through it."""
        address = listener.getsockname()
        self._start_listener(listener)
        try:
            yield
        finally:
            await self._close_listener(listener)
            # The peer may be gone without having closed its connections.
            if self._application is not None:
                self._application.abort_connections(address)

    async def load(self) -> ApiApplication:
        """Load and start the web application, unless it is started already."""
        async with self._loading:
            if self._application is None:
                # In a thread: the import takes longer than clients in the same process should wait.
                module = await asyncio.to_thread(import_module, _APPLICATION_MODULE)
                application = module.ApiApplication(self._api, self._admin_token, self._allowed_hosts)
                await application.start(self._create_ssl_context())
                self._application = application
            return self._application

    def _start_listener(self, listener: socket) -> None:
        listener.listen(LISTEN_BACKLOG)  # now: clients may connect as soon as this function returns
        self._listeners[listener] = asyncio.create_task(self._serve_listener(listener))

    async def _serve_listener(self, listener: socket) -> None:
        if self._application is None:
            await _wait_for_client(listener)
        application = await self.load()
        await accept_connections(listener, application.add_connection)

    async def _close_listener(self, listener: socket) -> None:
        if (task := self._listeners.pop(listener, None)) is not None:
            task.cancel()
            await asyncio.wait([task])
        listener.close()

    async def stop(self) -> None:
        for listener in list(self._listeners):
            await self._close_listener(listener)
        if self._application is not None:
            await self._application.stop()


async def _wait_for_client(listener: socket) -> None:
    """Wait until a client has connected to a listening socket."""
    loop, has_client = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, has_client.set)
    try:
        await has_client.wait()
    finally:
        loop.remove_reader(listener)
