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
from pliant.kube.auth.credentials import ANONYMOUS, ClientCertificate, Credential, CredentialProvider
from pliant.kube.auth.tls import TlsConfig
from pliant.kube.transport.base import Reply, Request, StreamReply

CONNECT_TIMEOUT_SECONDS = 10.0
RESPONSE_TIMEOUT_SECONDS = 30.0
"""How long a stream may take to begin."""
IDLE_CONNECTION_SECONDS = 75.0
"""How long an unused connection is kept."""
_TCP_KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerEndpoint:
    """Where an API server is and how to be let in."""

    url: str
    tls: TlsConfig | None = None
    """None only for plain HTTP."""
    credentials: CredentialProvider | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request."""
    context_name: str = ""
    """The name of the context it was found by; none inside a pod."""
    default_namespace: str = ""
    """Where things without a namespace belong, if somebody said so."""
    source: str = ""


class HttpTransport:
    """A pool of connections to one API server."""

    def __init__(self, endpoint: ApiServerEndpoint) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None
        self._cached_tls_context: tuple[ClientCertificate | None, ssl.SSLContext] | None = None

    @property
    def endpoint(self) -> ApiServerEndpoint:
        """Where requests go."""
        return self._endpoint

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_TIMEOUT_SECONDS)
        answer = await self._send_authenticated(request, timeout, request.timeout)
        try:
            async with answer:
                body = await answer.read()
        except _NETWORK_ERRORS as problem:
            raise self._unreachable_error(request, problem) from problem
        return Reply(status=answer.status, body=body, content_type=answer.content_type, headers=dict(answer.headers))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream; leaving the context ends it."""
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_TIMEOUT_SECONDS)
        answer = await self._send_authenticated(request, timeout, RESPONSE_TIMEOUT_SECONDS)
        chunks = self._read_chunks(request, answer)
        try:
            _enable_tcp_keepalive(answer)
            yield StreamReply(
                status=answer.status, chunks=chunks, content_type=answer.content_type, headers=dict(answer.headers)
            )
        finally:
            await chunks.aclose()
            _abort_stream(answer)

    async def aclose(self) -> None:
        """Give back connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send_authenticated(
        self, request: Request, timeout: aiohttp.ClientTimeout, response_timeout: float | None
    ) -> aiohttp.ClientResponse:
        """The beginning of an answer; a refused credential is renewed once, for nothing has happened yet."""
        login = self._endpoint.credentials
        shown = await login.credential() if login else ANONYMOUS
        answer = await self._send_once(request, shown, timeout, response_timeout)
        if answer.status != 401 or login is None or not await login.renew(shown):
            return answer
        answer.close()
        return await self._send_once(request, await login.credential(), timeout, response_timeout)

    async def _send_once(
        self, request: Request, credential: Credential, timeout: aiohttp.ClientTimeout, response_timeout: float | None
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict(self._endpoint.headers)
        headers["Accept"] = request.accept
        if request.body:
            headers["Content-Type"] = request.content_type
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        try:
            _before_send.set(request.before_send)
            async with asyncio.timeout(response_timeout):
                return await self._open_session().request(
                    request.method,
                    self._url(request),
                    data=_FencedPayload(request.body, request.before_send) if request.body else None,
                    headers=headers,
                    timeout=timeout,
                    # A redirect would carry the credentials to whoever it names.
                    allow_redirects=False,
                    proxy=self._endpoint.proxy_url,
                    server_hostname=self._endpoint.tls_server_name,
                    # Connections are kept by context: those of an old certificate serve nobody any more.
                    ssl=self._tls_context(credential.certificate),
                )
        except _NETWORK_ERRORS as problem:
            raise self._unreachable_error(request, problem) from problem

    def _tls_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext | bool:
        if self._endpoint.tls is None:
            return True
        if self._cached_tls_context is None or self._cached_tls_context[0] != certificate:
            self._cached_tls_context = (certificate, self._endpoint.tls.ssl_context(certificate))
        return self._cached_tls_context[1]

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        return URL(f"{self._endpoint.url}{request.path}{query}", encoded=True)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Watches and followed logs hold a connection each, so the pool has no bound of its own.
            connector = _FencedConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS)
            # Compression would cost both sides more than a network between cluster and operator gains.
            headers = {"User-Agent": f"pliant/{__version__}", "Accept-Encoding": "identity"}
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=jar)
            # Left to itself it sends a DELETE or PUT again, behind the back of those who count or fence requests.
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    async def _read_chunks(self, request: Request, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except _NETWORK_ERRORS as problem:
            raise self._unreachable_error(request, problem) from problem

    def _unreachable_error(self, request: Request, problem: Exception) -> Unreachable:
        return Unreachable(f"{request.method} {self._endpoint.url}{request.path}: {_describe_network_error(problem)}")


_before_send: ContextVar[Callable[[], object] | None] = ContextVar("admission", default=None)


class _FencedPayload(aiohttp.BytesPayload):
    """Asks whether it may still leave when it is written, which is a turn of a busy loop after the connection."""

    def __init__(self, value: bytes, before_send: Callable[[], object] | None) -> None:
        super().__init__(value)
        self._before_send = before_send

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Leave, together with the head of the request."""
        if self._before_send is not None:
            self._before_send()
        await super().write_with_length(writer, content_length)


class _FencedConnector(aiohttp.TCPConnector):
    """Asks whether a request may still leave when its connection is there: to log in and connect takes a while."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """A connection for this request, from which nothing has been sent yet."""
        connection = await super().connect(req, traces, timeout)
        try:
            if (admit := _before_send.get()) is not None:
                admit()
        except BaseException:
            connection.release()
            raise
        return connection


def _describe_network_error(problem: Exception) -> str:
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


def _abort_stream(response: aiohttp.ClientResponse) -> None:
    """End a stream now: the rest of an endless answer is unwanted, a TLS farewell would outlive the session."""
    transport = response.connection.transport if response.connection else None
    if transport is not None:
        transport.abort()
    response.close()


def _enable_tcp_keepalive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel probe a quiet stream: a peer that vanished is known in under a minute."""
    transport = response.connection.transport if response.connection else None
    plain = transport.get_extra_info("socket") if transport else None
    if plain is None or plain.family not in (socket.AF_INET, socket.AF_INET6):
        return
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _TCP_KEEPALIVE_OPTIONS.items():
        if number := getattr(socket, option, None):
            plain.setsockopt(socket.IPPROTO_TCP, number, value)
