"""The HTTP transport: verified TLS, pooled connections, every network error as `Unreachable`."""

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
from pliant.kube.auth.credentials import ANONYMOUS_CREDENTIAL, ClientCertificate, Credential, CredentialProvider
from pliant.kube.auth.tls import TlsConfig
from pliant.kube.transport.base import Reply, Request, StreamReply

CONNECT_TIMEOUT_SECONDS = 10.0
STREAM_START_TIMEOUT_SECONDS = 30.0  # timeout until a stream begins
IDLE_CONNECTION_SECONDS = 75.0
_TCP_KEEPALIVE_OPTIONS = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerEndpoint:
    url: str
    tls: TlsConfig | None = None  # None only for plain HTTP
    credentials: CredentialProvider | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    context_name: str = ""  # the kubeconfig context; empty inside a pod
    default_namespace: str = ""
    source: str = ""


class HttpTransport:
    def __init__(self, endpoint: ApiServerEndpoint) -> None:
        self.endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._cached_tls_context: tuple[ClientCertificate | None, ssl.SSLContext] | None = None

    async def send(self, request: Request) -> Reply:
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_TIMEOUT_SECONDS)
        response = await self._send_authenticated(request, timeout, request.timeout)
        try:
            async with response:
                body = await response.read()
        except _NETWORK_ERRORS as error:
            raise self._unreachable_error(request, error) from error
        return Reply(
            status=response.status, body=body, content_type=response.content_type, headers=dict(response.headers)
        )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_TIMEOUT_SECONDS)
        response = await self._send_authenticated(request, timeout, STREAM_START_TIMEOUT_SECONDS)
        chunks = self._read_chunks(request, response)
        try:
            _enable_tcp_keepalive(response)
            yield StreamReply(
                status=response.status,
                chunks=chunks,
                content_type=response.content_type,
                headers=dict(response.headers),
            )
        finally:
            await chunks.aclose()
            _abort_stream(response)

    async def aclose(self) -> None:
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send_authenticated(
        self, request: Request, timeout: aiohttp.ClientTimeout, response_timeout: float | None
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the response headers; if the credential is rejected, renew it once and retry."""
        provider = self.endpoint.credentials
        credential = await provider.credential() if provider else ANONYMOUS_CREDENTIAL
        response = await self._send_once(request, credential, timeout, response_timeout)
        if response.status != 401 or provider is None or not await provider.renew_after_rejection(credential):
            return response
        response.close()
        return await self._send_once(request, await provider.credential(), timeout, response_timeout)

    async def _send_once(
        self, request: Request, credential: Credential, timeout: aiohttp.ClientTimeout, response_timeout: float | None
    ) -> aiohttp.ClientResponse:
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        headers = CIMultiDict(self.endpoint.headers)
        headers["Accept"] = request.accept
        if request.body:
            headers["Content-Type"] = request.content_type
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        try:
            if self._is_closed:
                # A task that outlives the client would open a session that is never closed.
                raise aiohttp.ClientError("the client is closed")
            _before_send.set(request.before_send)
            async with asyncio.timeout(response_timeout):
                return await self._open_session().request(
                    request.method,
                    URL(f"{self.endpoint.url}{request.path}{query}", encoded=True),
                    data=_FencedPayload(request.body, request.before_send) if request.body else None,
                    headers=headers,
                    timeout=timeout,
                    # A redirect would send the credentials to another server.
                    allow_redirects=False,
                    proxy=self.endpoint.proxy_url,
                    server_hostname=self.endpoint.tls_server_name,
                    # The pool is keyed by TLS context, so connections with an old certificate are not reused.
                    ssl=self._tls_context(credential.certificate),
                )
        except _NETWORK_ERRORS as error:
            raise self._unreachable_error(request, error) from error

    def _tls_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext | bool:
        if self.endpoint.tls is None:
            return True
        if self._cached_tls_context is None or self._cached_tls_context[0] != certificate:
            self._cached_tls_context = (certificate, self.endpoint.tls.build_ssl_context(certificate))
        return self._cached_tls_context[1]

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Watches and followed logs hold a connection each, so the pool is unlimited.
            connector = _FencedConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS)
            # Compression costs more CPU than a network between cluster and operator gains.
            headers = {"User-Agent": f"pliant/{__version__}", "Accept-Encoding": "identity"}
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=jar)
            # aiohttp would retry a DELETE or PUT itself, which bypasses the metrics and the fence.
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    async def _read_chunks(self, request: Request, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except _NETWORK_ERRORS as error:
            raise self._unreachable_error(request, error) from error

    def _unreachable_error(self, request: Request, error: Exception) -> Unreachable:
        return Unreachable(f"{request.method} {self.endpoint.url}{request.path}: {_describe_network_error(error)}")


_before_send: ContextVar[Callable[[], object] | None] = ContextVar("before_send", default=None)


class _FencedPayload(aiohttp.BytesPayload):
    """Calls `before_send` when the body is written, which may be long after the connection on a busy event loop."""

    def __init__(self, value: bytes, before_send: Callable[[], object] | None) -> None:
        super().__init__(value)
        self._before_send = before_send

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._before_send is not None:
            self._before_send()
        await super().write_with_length(writer, content_length)


class _FencedConnector(aiohttp.TCPConnector):
    """Calls `before_send` when the connection is ready, because authentication and connecting take time."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        try:
            if (before_send := _before_send.get()) is not None:
                before_send()
        except BaseException:
            connection.release()
            raise
        return connection


def _describe_network_error(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        return f"the server certificate is not trusted: {getattr(cause, 'verify_message', '') or cause}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"TLS handshake failed: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, socket.gaierror):
        return f"cannot resolve {error.host}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"proxy error: {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    if isinstance(error, TimeoutError):
        return "no response in time"
    return str(error) or type(error).__name__


def _abort_stream(response: aiohttp.ClientResponse) -> None:
    """Close a stream at once: it may be endless, and an orderly TLS shutdown would outlive the session."""
    transport = response.connection.transport if response.connection else None
    if transport is not None:
        transport.abort()
    response.close()


def _enable_tcp_keepalive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel probe an idle stream, so that a dead peer is detected in less than a minute."""
    transport = response.connection.transport if response.connection else None
    sock = transport.get_extra_info("socket") if transport else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _TCP_KEEPALIVE_OPTIONS.items():
        if number := getattr(socket, option, None):
            sock.setsockopt(socket.IPPROTO_TCP, number, value)
