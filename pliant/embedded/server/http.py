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

from pliant.embedded.catalog.facts import PUBLIC
from pliant.embedded.server import portforward, streaming
from pliant.embedded.server.answers import refusal
from pliant.embedded.server.api import ApiServer
from pliant.embedded.server.bodies import LARGEST_BYTES
from pliant.embedded.server.certs import NAMES
from pliant.embedded.server.direct import close_stream
from pliant.embedded.server.reviews import ANYBODY, USER
from pliant.embedded.server.tokens import User
from pliant.errors import ApiError, Forbidden, Unauthorized
from pliant.kube.transport import JSON, Reply, Request, StreamReply

LONGEST_LINE = 64 * 1024
SHUTDOWN_SECONDS = 2.0


def loopback_socket(port: int = 0) -> socket:
    """A bound socket that only this machine can reach; port 0 takes any that is free."""
    listener = socket(AF_INET, SOCK_STREAM)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


class HttpFront:
    """Answers HTTPS on any number of sockets, which may join while it runs."""

    def __init__(self, api: ApiServer, token: str, hosts: Collection[str]) -> None:
        self._api = api
        self._token = token.encode()
        self._hosts = frozenset({*NAMES, *hosts})
        self._streams: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._context: ssl.SSLContext | None = None

    @classmethod
    @asynccontextmanager
    async def serving(
        cls, api: ApiServer, *, token: str, context: ssl.SSLContext, hosts: Collection[str] = ()
    ) -> AsyncIterator[HttpFront]:
        """A front that answers to the names of its certificate and to `hosts`; `listen` opens its doors."""
        front = cls(api, token, hosts)
        await front._start(context)
        try:
            yield front
        finally:
            await front._stop()

    async def listen(self, listener: socket) -> None:
        """Answer on one more bound socket; the front closes it at its end."""
        await self._site(listener).start()

    @asynccontextmanager
    async def listening(self, listener: socket) -> AsyncIterator[None]:
        """Answer on one more bound socket for a while; who came through it is let go of at the end."""
        site, place = self._site(listener), listener.getsockname()
        await site.start()
        try:
            yield
        finally:
            await site.stop()
            self._hang_up(place)

    def _site(self, listener: socket) -> web.SockSite:
        if self._runner is None:
            raise RuntimeError("the front is not started")
        return web.SockSite(self._runner, listener, ssl_context=self._context)

    def _hang_up(self, place: object) -> None:
        """Break off what came in at an address: nobody at the other end may be left to do it."""
        server = self._runner.server if self._runner is not None else None
        for connection in server.connections if server is not None else ():
            transport = connection.transport
            if transport is not None and transport.get_extra_info("sockname") == place:
                transport.abort()

    async def _start(self, context: ssl.SSLContext) -> None:
        application = web.Application(client_max_size=LARGEST_BYTES)
        application.router.add_route("*", "/{path:.*}", self._respond)
        application.on_shutdown.append(self._end_streams)
        self._context = context
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_SECONDS,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
        )
        await self._runner.setup()

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _end_streams(self, application: web.Application) -> None:
        """Watches and followed logs never end by themselves; a stop must not wait for them."""
        for stream in list(self._streams):
            stream.cancel()

    async def _respond(self, incoming: web.Request) -> web.StreamResponse:
        try:
            user = self._trusted(incoming)
            request = await _understood(incoming)
            if streaming.is_session(request.path):
                return await self._converse(incoming, request)
        except ApiError as error:
            return _response(refusal(error))
        answer = await self._api.handle(request, user)
        if isinstance(answer, StreamReply):
            return await self._stream(incoming, answer)
        tag = answer.headers.get("ETag")
        if tag and incoming.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return _response(answer)

    def _trusted(self, incoming: web.Request) -> User:
        """Who asks; strangers may only ask how we are."""
        # A web page can make a browser call any address under a name of its own choosing; it cannot forge these.
        origin = incoming.headers.get("Origin")
        claimed = [incoming.host, *([urlsplit(origin).netloc] if origin is not None else [])]
        if any(_without_port(name) not in self._hosts for name in claimed):
            raise Forbidden(403, "Forbidden", f"this server does not answer to the name {claimed[-1]!r}")
        if incoming.path.rstrip("/") in PUBLIC and incoming.method == "GET":
            return ANYBODY
        # The scheme may be written in any case: Kubernetes' own Python client says `bearer` inside a cluster.
        scheme, _, given = incoming.headers.get("Authorization", "").partition(" ")
        is_token = scheme.lower() == "bearer"
        if is_token and hmac.compare_digest(given.encode(), self._token):
            return USER
        user = self._api.tokens.user(given) if is_token else None
        if user is None:
            raise Unauthorized(401, "Unauthorized", "Unauthorized")
        return user

    async def _converse(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        if request.path.endswith("/portforward"):
            connect = self._api.open_ports(request)
            socket = streaming.require_websocket(incoming, portforward.PROTOCOL)
            await socket.prepare(incoming)
            await self._owned(portforward.forward(socket, connect))
            return socket
        opening = self._api.open_session(request, incoming.query.getall("command", ()))
        socket = streaming.require_websocket(incoming, *streaming.PROTOCOLS)
        await socket.prepare(incoming)
        await self._owned(streaming.converse(socket, opening))
        return socket

    async def _stream(self, incoming: web.Request, answer: StreamReply) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        response.content_type = answer.content_type
        try:
            await response.prepare(incoming)
            await self._owned(_send(response.write, answer.chunks))
            await response.write_eof()  # also when a shutdown ended the stream: its reader sees a clean end
        except* ConnectionError:
            pass  # the reader left: nobody is there to be told
        finally:
            await close_stream(answer.chunks)  # also when nobody began to read it
        return response

    async def _owned(self, work: Coroutine[None, None, None]) -> None:
        """Do work that never ends by itself; a stop ends it."""
        async with asyncio.TaskGroup() as tasks:
            doing = tasks.create_task(work)
            self._streams.add(doing)
            doing.add_done_callback(self._streams.discard)


async def _send(write: Callable[[bytes], Awaitable[None]], chunks: AsyncIterator[bytes]) -> None:
    try:
        async for chunk in chunks:
            await write(chunk)
    finally:
        await close_stream(chunks)


async def _understood(incoming: web.Request) -> Request:
    try:
        body = await incoming.read()
    except web.HTTPRequestEntityTooLarge:
        message = f"Request entity too large: limit is {LARGEST_BYTES}"
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


def _response(reply: Reply) -> web.Response:
    headers = {"Content-Type": reply.content_type, "Cache-Control": "no-cache, private", **reply.headers}
    return web.Response(status=reply.status, body=reply.body, headers=headers)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
