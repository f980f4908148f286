"""The embedded API over HTTPS: its token and those of pods open everything, nothing else more than health."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from urllib.parse import urlsplit

from aiohttp import web

from pliant.embedded.apiserver.auth.cluster_credentials import SERVING_CERT_NAMES
from pliant.embedded.apiserver.auth.self_review import ADMIN_USER, ANONYMOUS_USER
from pliant.embedded.apiserver.auth.tokens import UserInfo
from pliant.embedded.apiserver.http.in_process_transport import close_stream
from pliant.embedded.apiserver.http.request_body import MAX_BODY_BYTES
from pliant.embedded.apiserver.http.responses import error_response
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.apiserver.streaming import exec_websocket, portforward
from pliant.embedded.registry.discovery import UNAUTHENTICATED_PATHS
from pliant.errors import ApiError, Forbidden, Unauthorized
from pliant.kube.transport.base import JSON, Reply, Request, StreamReply

MAX_HEADER_LINE_BYTES = 64 * 1024
SHUTDOWN_TIMEOUT_SECONDS = 2.0


def bind_loopback_socket(port: int = 0) -> socket:
    """A bound socket that only this machine can reach; port 0 takes any that is free."""
    listener = socket(AF_INET, SOCK_STREAM)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


class HttpsServer:
    """Answers HTTPS on any number of sockets, which may join while it runs."""

    def __init__(self, api: ApiServer, admin_token: str, allowed_hosts: Collection[str]) -> None:
        self._api = api
        self._admin_token = admin_token.encode()
        self._allowed_hosts = frozenset({*SERVING_CERT_NAMES, *allowed_hosts})
        self._stream_tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._ssl_context: ssl.SSLContext | None = None

    @classmethod
    @asynccontextmanager
    async def start(
        cls, api: ApiServer, *, admin_token: str, ssl_context: ssl.SSLContext, allowed_hosts: Collection[str] = ()
    ) -> AsyncIterator[HttpsServer]:
        """A front that answers to the names of its certificate and to `hosts`; `listen` opens its doors."""
        front = cls(api, admin_token, allowed_hosts)
        await front._start_runner(ssl_context)
        try:
            yield front
        finally:
            await front._stop_runner()

    async def listen(self, listener: socket) -> None:
        """Answer on one more bound socket; the front closes it at its end."""
        await self._create_site(listener).start()

    @asynccontextmanager
    async def temporary_listener(self, listener: socket) -> AsyncIterator[None]:
        """Answer on one more bound socket for a while; who came through it is let go of at the end."""
        site, place = self._create_site(listener), listener.getsockname()
        await site.start()
        try:
            yield
        finally:
            await site.stop()
            self._abort_connections(place)

    def _create_site(self, listener: socket) -> web.SockSite:
        if self._runner is None:
            raise RuntimeError("the front is not started")
        return web.SockSite(self._runner, listener, ssl_context=self._ssl_context)

    def _abort_connections(self, local_address: object) -> None:
        """Break off what came in at an address: nobody at the other end may be left to do it."""
        server = self._runner.server if self._runner is not None else None
        for connection in server.connections if server is not None else ():
            transport = connection.transport
            if transport is not None and transport.get_extra_info("sockname") == local_address:
                transport.abort()

    async def _start_runner(self, ssl_context: ssl.SSLContext) -> None:
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._handle_request)
        application.on_shutdown.append(self._cancel_streams)
        self._ssl_context = ssl_context
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_TIMEOUT_SECONDS,
            max_line_size=MAX_HEADER_LINE_BYTES,
            max_field_size=MAX_HEADER_LINE_BYTES,
        )
        await self._runner.setup()

    async def _stop_runner(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _cancel_streams(self, application: web.Application) -> None:
        """Watches and followed logs never end by themselves; a stop must not wait for them."""
        for stream in list(self._stream_tasks):
            stream.cancel()

    async def _handle_request(self, incoming: web.Request) -> web.StreamResponse:
        try:
            user = self._authenticate(incoming)
            request = await _read_request(incoming)
            if exec_websocket.is_streaming_path(request.path):
                return await self._serve_session(incoming, request)
        except ApiError as error:
            return _to_web_response(error_response(error))
        answer = await self._api.handle(request, user)
        if isinstance(answer, StreamReply):
            return await self._send_stream(incoming, answer)
        tag = answer.headers.get("ETag")
        if tag and incoming.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return _to_web_response(answer)

    def _authenticate(self, incoming: web.Request) -> UserInfo:
        """Who asks; strangers may only ask how we are."""
        # A web page can make a browser call any address under a name of its own choosing; it cannot forge these.
        origin = incoming.headers.get("Origin")
        claimed = [incoming.host, *([urlsplit(origin).netloc] if origin is not None else [])]
        if any(_strip_port(name) not in self._allowed_hosts for name in claimed):
            raise Forbidden(403, "Forbidden", f"this server does not answer to the name {claimed[-1]!r}")
        if incoming.path.rstrip("/") in UNAUTHENTICATED_PATHS and incoming.method == "GET":
            return ANONYMOUS_USER
        # The scheme may be written in any case: Kubernetes' own Python client says `bearer` inside a cluster.
        scheme, _, given = incoming.headers.get("Authorization", "").partition(" ")
        is_token = scheme.lower() == "bearer"
        if is_token and hmac.compare_digest(given.encode(), self._admin_token):
            return ADMIN_USER
        user = self._api.tokens.authenticate(given) if is_token else None
        if user is None:
            raise Unauthorized(401, "Unauthorized", "Unauthorized")
        return user

    async def _serve_session(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        if request.path.endswith("/portforward"):
            connect = self._api.open_port_forward(request)
            socket = exec_websocket.negotiate_websocket(incoming, portforward.PORT_FORWARD_PROTOCOL)
            await socket.prepare(incoming)
            await self._run_until_shutdown(portforward.forward_ports(socket, connect))
            return socket
        opening = self._api.open_session(request, incoming.query.getall("command", ()))
        socket = exec_websocket.negotiate_websocket(incoming, *exec_websocket.EXEC_PROTOCOLS)
        await socket.prepare(incoming)
        await self._run_until_shutdown(exec_websocket.serve_exec_session(socket, opening))
        return socket

    async def _send_stream(self, incoming: web.Request, reply: StreamReply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=dict(reply.headers))
        response.content_type = reply.content_type
        try:
            await response.prepare(incoming)
            await self._run_until_shutdown(_write_chunks(response.write, reply.chunks))
            await response.write_eof()  # also when a shutdown ended the stream: its reader sees a clean end
        except* ConnectionError:
            pass  # the reader left: nobody is there to be told
        finally:
            await close_stream(reply.chunks)  # also when nobody began to read it
        return response

    async def _run_until_shutdown(self, work: Coroutine[None, None, None]) -> None:
        """Do work that never ends by itself; a stop ends it."""
        async with asyncio.TaskGroup() as tasks:
            doing = tasks.create_task(work)
            self._stream_tasks.add(doing)
            doing.add_done_callback(self._stream_tasks.discard)


async def _write_chunks(write: Callable[[bytes], Awaitable[None]], chunks: AsyncIterator[bytes]) -> None:
    try:
        async for chunk in chunks:
            await write(chunk)
    finally:
        await close_stream(chunks)


async def _read_request(incoming: web.Request) -> Request:
    try:
        body = await incoming.read()
    except web.HTTPRequestEntityTooLarge:
        message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
        raise ApiError(413, "RequestEntityTooLarge", message) from None
    return Request(
        method=incoming.method,
        path=incoming.rel_url.raw_path,
        query=dict(incoming.query),
        body=body,
        content_type=incoming.headers.get("Content-Type") or JSON,
        accept=incoming.headers.get("Accept", JSON),
        timeout=None,
    )


def _to_web_response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type, "Cache-Control": "no-cache, private", **reply.headers}
    return web.Response(status=reply.status, body=reply.body, headers=headers)


def _strip_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
