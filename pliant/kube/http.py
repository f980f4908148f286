"""Carries requests over HTTP: verified TLS, reused connections, every network failure as `Unreachable`."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from pliant import __version__
from pliant.errors import Unreachable
from pliant.kube.login import NOBODY, Certificate, Credential, Login
from pliant.kube.tls import Trust
from pliant.kube.transport import Reply, Request, StreamReply

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""How long a stream may take to begin."""
IDLE_SECONDS = 75.0
"""How long an unused connection is kept."""
_KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an API server is and how to be let in."""

    url: str
    trust: Trust | None = None
    """None only for plain HTTP."""
    login: Login | None = None
    server_name: str | None = None
    proxy: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request."""
    context: str = ""
    """The name of the context it was found by; none inside a pod."""
    namespace: str = ""
    """Where things without a namespace belong, if somebody said so."""
    found_in: str = ""


class HttpTransport:
    """A pool of connections to one API server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None
        self._tls: tuple[Certificate | None, ssl.SSLContext] | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where requests go."""
        return self._endpoint

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_SECONDS)
        answer = await self._answer(request, timeout, request.timeout)
        try:
            async with answer:
                body = await answer.read()
        except _FAILURES as problem:
            raise self._unreachable(request, problem) from problem
        return Reply(
            status=answer.status, body=body, content_type=answer.content_type, headers=dict(answer.headers)
        )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream; leaving the context ends it."""
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_SECONDS)
        answer = await self._answer(request, timeout, ANSWER_SECONDS)
        chunks = self._chunks(request, answer)
        try:
            _notice_dead_peers(answer)
            yield StreamReply(
                status=answer.status,
                chunks=chunks,
                content_type=answer.content_type,
                headers=dict(answer.headers),
            )
        finally:
            await chunks.aclose()
            _hang_up(answer)

    async def aclose(self) -> None:
        """Give back connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _answer(
        self, request: Request, timeout: aiohttp.ClientTimeout, patience: float | None
    ) -> aiohttp.ClientResponse:
        """The beginning of an answer; a refused credential is renewed once, for nothing has happened yet."""
        login = self._endpoint.login
        shown = await login.credential() if login else NOBODY
        answer = await self._begin(request, shown, timeout, patience)
        if answer.status != 401 or login is None or not await login.renew(shown):
            return answer
        answer.close()
        return await self._begin(request, await login.credential(), timeout, patience)

    async def _begin(
        self, request: Request, shown: Credential, timeout: aiohttp.ClientTimeout, patience: float | None
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict(self._endpoint.headers)
        headers["Accept"] = request.accept
        if request.body:
            headers["Content-Type"] = request.content_type
        if shown.authorization:
            headers["Authorization"] = shown.authorization
        try:
            _admission.set(request.admit)
            async with asyncio.timeout(patience):
                return await self._open_session().request(
                    request.method,
                    self._url(request),
                    data=_Body(request.body, request.admit) if request.body else None,
                    headers=headers,
                    timeout=timeout,
                    # A redirect would carry the credentials to whoever it names.
                    allow_redirects=False,
                    proxy=self._endpoint.proxy,
                    server_hostname=self._endpoint.server_name,
                    # Connections are kept by context: those of an old certificate serve nobody any more.
                    ssl=self._context(shown.certificate),
                )
        except _FAILURES as problem:
            raise self._unreachable(request, problem) from problem

    def _context(self, certificate: Certificate | None) -> ssl.SSLContext | bool:
        if self._endpoint.trust is None:
            return True
        if self._tls is None or self._tls[0] != certificate:
            self._tls = (certificate, self._endpoint.trust.context(certificate))
        return self._tls[1]

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        return URL(f"{self._endpoint.url}{request.path}{query}", encoded=True)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Watches and followed logs hold a connection each, so the pool has no bound of its own.
            connector = _Connector(limit=0, keepalive_timeout=IDLE_SECONDS)
            # Compression would cost both sides more than a network between cluster and operator gains.
            headers = {"User-Agent": f"pliant/{__version__}", "Accept-Encoding": "identity"}
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=jar)
            # Left to itself it sends a DELETE or PUT again, behind the back of those who count or fence requests.
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    async def _chunks(self, request: Request, answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in answer.content.iter_any():
                yield chunk
        except _FAILURES as problem:
            raise self._unreachable(request, problem) from problem

    def _unreachable(self, request: Request, problem: Exception) -> Unreachable:
        return Unreachable(f"{request.method} {self._endpoint.url}{request.path}: {_words(problem)}")


_admission: ContextVar[Callable[[], object] | None] = ContextVar("admission", default=None)


class _Body(aiohttp.BytesPayload):
    """Asks whether it may still leave when it is written, which is a turn of a busy loop after the connection."""

    def __init__(self, value: bytes, admit: Callable[[], object] | None) -> None:
        super().__init__(value)
        self._admit = admit

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Leave, together with the head of the request."""
        if self._admit is not None:
            self._admit()
        await super().write_with_length(writer, content_length)


class _Connector(aiohttp.TCPConnector):
    """Asks whether a request may still leave when its connection is there: to log in and connect takes a while."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """A connection for this request, from which nothing has been sent yet."""
        connection = await super().connect(req, traces, timeout)
        try:
            if (admit := _admission.get()) is not None:
                admit()
        except BaseException:
            connection.release()
            raise
        return connection


def _words(problem: Exception) -> str:
    """Why nothing came back, in words for people."""
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        found = problem.certificate_error
        return f"the server's certificate is not trusted: {getattr(found, 'verify_message', '') or found}"
    if isinstance(problem, aiohttp.ClientConnectorSSLError):
        return f"no secure connection: {problem.os_error}"
    if isinstance(problem, aiohttp.ClientConnectorError) and isinstance(problem.os_error, socket.gaierror):
        return f"no address is known for {problem.host}"
    if isinstance(problem, aiohttp.ClientHttpProxyError):
        return f"the proxy refused: {problem.status} {problem.message}"
    if isinstance(problem, aiohttp.ClientConnectorError) and problem.os_error.errno:
        return os.strerror(problem.os_error.errno)
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return str(problem) or type(problem).__name__


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """End a stream now: the rest of an endless answer is unwanted, a TLS farewell would outlive the session."""
    transport = answer.connection.transport if answer.connection else None
    if transport is not None:
        transport.abort()
    answer.close()


def _notice_dead_peers(answer: aiohttp.ClientResponse) -> None:
    """Let the kernel probe a quiet stream: a peer that vanished is known in under a minute."""
    transport = answer.connection.transport if answer.connection else None
    plain = transport.get_extra_info("socket") if transport else None
    if plain is None or plain.family not in (socket.AF_INET, socket.AF_INET6):
        return
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if number := getattr(socket, option, None):
            plain.setsockopt(socket.IPPROTO_TCP, number, value)
