"""The web application of the embedded API. It accepts the admin token and service account tokens."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from socket import socket
from urllib.parse import urlsplit

from aiohttp import web

from pliant.embedded.apiserver.auth.users import ADMIN_USER, ANONYMOUS_USER, UserInfo
from pliant.embedded.apiserver.authorization.impersonation import impersonated_user
from pliant.embedded.apiserver.http.connections import ApiConnection, ConnectionPool
from pliant.embedded.apiserver.http.in_process_transport import close_stream
from pliant.embedded.apiserver.http.incoming_body import read_body, send_error
from pliant.embedded.apiserver.http.responses import error_response
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.apiserver.streaming import exec_websocket, portforward, portforward_channels
from pliant.embedded.apiserver.streaming.channel_websocket import ChannelWebSocket, negotiate_websocket
from pliant.embedded.registry.discovery import UNAUTHENTICATED_PATHS
from pliant.errors import ApiError, Forbidden, Unauthorized
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, Request, StreamReply

SHUTDOWN_TIMEOUT_SECONDS = 2.0
_LARGE_CHUNK_BYTES = 64 * 1024


class ApiApplication:
    """Serves the requests of the connections that it is given."""

    def __init__(self, api: ApiServer, admin_token: str, allowed_hosts: Collection[str]) -> None:
        self._api = api
        self._admin_token = admin_token.encode()
        self._allowed_hosts = frozenset(allowed_hosts)
        self._stream_tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._connections: ConnectionPool | None = None

    async def start(self, ssl_context: ssl.SSLContext) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle_request)
        application.on_shutdown.append(self._cancel_streams)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT_SECONDS)
        await self._runner.setup()
        assert self._runner.server is not None
        self._connections = ConnectionPool(self._runner.server, ssl_context)

    def add_connection(self, connection: socket) -> None:
        self._require_connections().add(connection)

    def abort_connections(self, listener_address: object = None) -> None:
        """Abort the connections that came through a listener, by default all."""
        self._require_connections().abort_all(listener_address)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._connections is not None:
            self._connections.abort_all()

    def _require_connections(self) -> ConnectionPool:
        if self._connections is None:
            raise RuntimeError("the application is not started")
        return self._connections

    async def _cancel_streams(self, application: web.Application) -> None:
        # Watches and followed logs never end by themselves; the shutdown must not wait for them.
        for stream in list(self._stream_tasks):
            stream.cancel()

    async def _handle_request(self, incoming: web.Request) -> web.StreamResponse:
        connection = incoming.protocol
        assert isinstance(connection, ApiConnection)
        with connection.serve_request():
            return await self._serve_request(incoming, connection)

    async def _serve_request(self, incoming: web.Request, connection: ApiConnection) -> web.StreamResponse:
        try:
            user = self._authenticate(incoming)
            if user is not ANONYMOUS_USER:
                self._require_connections().mark_authenticated(connection)
            user = impersonated_user(incoming.headers.items(), user, self._api.authorizer)
            request = await _read_request(incoming)
            if exec_websocket.is_streaming_path(request.path):
                return await self._serve_session(incoming, request, user)
        except ApiError as error:
            return await send_error(incoming, _to_web_response(error_response(error)))
        reply = await self._api.handle(request, user)
        if isinstance(reply, StreamReply):
            return await self._send_stream(incoming, reply)
        etag = reply.headers.get("ETag")
        if etag and incoming.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        return _to_web_response(reply)

    def _authenticate(self, incoming: web.Request) -> UserInfo:
        """Return the user of a request; only the health endpoints are open without a token."""
        # DNS rebinding: a web page can make a browser send requests here under any name, but cannot forge headers.
        origin = incoming.headers.get("Origin")
        hosts = [incoming.host, *([_origin_host(origin)] if origin is not None else [])]
        if any(_strip_port(host) not in self._allowed_hosts for host in hosts):
            raise Forbidden(403, "Forbidden", f"Host, Origin: {hosts[-1]!r} is not a name of this server")
        if incoming.path.rstrip("/") in UNAUTHENTICATED_PATHS and incoming.method == "GET":
            return ANONYMOUS_USER
        # The scheme is case-insensitive: the Python client of Kubernetes sends `bearer` inside a cluster.
        scheme, _, token = incoming.headers.get("Authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        if is_bearer and hmac.compare_digest(token.encode(errors="replace"), self._admin_token):
            return ADMIN_USER
        user = self._api.authenticate(token) if is_bearer else None
        if user is None:
            raise Unauthorized(401, "Unauthorized", "Unauthorized")
        return user

    async def _serve_session(self, incoming: web.Request, request: Request, user: UserInfo) -> web.StreamResponse:
        if request.path.endswith("/portforward"):
            return await self._serve_port_forward(incoming, request, user)
        session = self._api.prepare_session(request, incoming.query.getall("command", ()), user)
        websocket = negotiate_websocket(incoming, *exec_websocket.EXEC_PROTOCOLS)
        await websocket.prepare(incoming)
        await self._run_until_shutdown(exec_websocket.serve_exec_session(ChannelWebSocket(websocket), session))
        return websocket

    async def _serve_port_forward(self, incoming: web.Request, request: Request, user: UserInfo) -> web.StreamResponse:
        connect = self._api.prepare_port_forward(request, user)
        protocols = (portforward.PORT_FORWARD_PROTOCOL, *portforward_channels.PORT_CHANNEL_PROTOCOLS)
        websocket = negotiate_websocket(incoming, *protocols)
        if portforward.PORT_FORWARD_PROTOCOL in incoming.headers.get("Sec-WebSocket-Protocol", ""):
            await websocket.prepare(incoming)
            await self._run_until_shutdown(portforward.forward_ports(websocket, connect))
            return websocket
        ports = portforward_channels.parse_ports(incoming.query.getall("ports", ()))
        await websocket.prepare(incoming)
        forwarding = portforward_channels.forward_port_channels(ChannelWebSocket(websocket), connect, ports)
        await self._run_until_shutdown(forwarding)
        return websocket

    async def _send_stream(self, incoming: web.Request, reply: StreamReply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=dict(reply.headers))
        response.content_type = reply.content_type
        try:
            await response.prepare(incoming)
            await self._run_until_shutdown(_write_chunks(response.write, reply.chunks))
            await response.write_eof()  # also after a shutdown, so that the client sees a clean end
        except* ConnectionError:
            pass  # the client disconnected
        finally:
            await close_stream(reply.chunks)  # also when no chunk was read
        return response

    async def _run_until_shutdown(self, work: Coroutine[None, None, None]) -> None:
        """Run work that does not end by itself; the shutdown of the server cancels it."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(work)
            self._stream_tasks.add(task)
            task.add_done_callback(self._stream_tasks.discard)


async def _write_chunks(write: Callable[[bytes], Awaitable[None]], chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        await write(chunk)
        if len(chunk) >= _LARGE_CHUNK_BYTES:
            await asyncio.sleep(0)  # a socket takes many chunks at once; other requests have their turn in between


async def _read_request(incoming: web.Request) -> Request:
    return Request(
        method=incoming.method,
        path=incoming.rel_url.raw_path,
        query=dict(incoming.query),
        body=await read_body(incoming),
        content_type=incoming.headers.get("Content-Type") or JSON_CONTENT_TYPE,
        accept=incoming.headers.get("Accept", JSON_CONTENT_TYPE),
        timeout=None,
    )


def _to_web_response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type, "Cache-Control": "no-cache, private", **reply.headers}
    return web.Response(status=reply.status, body=reply.body, headers=headers)


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return origin  # not a URL, and no name of this server


def _strip_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
