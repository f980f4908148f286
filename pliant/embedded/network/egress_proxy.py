"""The HTTP proxy in the pod network through which pods reach external hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.network.egress_connector import CLUSTER_NETWORKS, ConnectionDenied, EgressConnector, HostProxy
from pliant.embedded.network.streams import ConnectionTasks, DuplexStream, splice_streams

PROXY_PORT = 3128
_MAX_HEADER_BYTES = 64 * 1024
_REQUEST_TIMEOUT = 60.0
_HOP_BY_HOP_HEADERS = frozenset({"connection", "proxy-connection", "proxy-authorization", "keep-alive"})
_NO_PROXY_HOSTS = ("localhost", "127.0.0.1", "::1", ".svc", ".cluster.local")


def proxy_variables(gateway: str, no_proxy: Iterable[str]) -> dict[str, str]:
    """Return the proxy variables; cluster addresses and hosts in `no_proxy` are reached directly."""
    url = f"http://{gateway}:{PROXY_PORT}"
    excluded = ",".join([*_NO_PROXY_HOSTS, gateway, *map(str, CLUSTER_NETWORKS), *no_proxy])
    variables = {"http_proxy": url, "https_proxy": url, "no_proxy": excluded}
    return variables | {name.upper(): value for name, value in variables.items()}


class EgressProxy:
    """Serves CONNECT and absolute-form HTTP requests; an error response gives the reason for a denial."""

    def __init__(self, connector: EgressConnector) -> None:
        self._connector = connector
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(cls, agent: NodeAgentClient, connector: EgressConnector) -> AsyncIterator[EgressProxy]:
        proxy = cls(connector)
        listener = await agent.open_socket("stream", agent.gateway_address, PROXY_PORT)
        server = await asyncio.start_server(proxy.serve_connection, sock=listener, limit=_MAX_HEADER_BYTES)
        try:
            yield proxy
        finally:
            server.close()
            await proxy._connections.cancel_all()

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client_ip = writer.get_extra_info("peername")[0]
        with self._connections.track(writer), suppress(OSError, asyncio.IncompleteReadError):
            try:
                await self._proxy_request(DuplexStream(reader, writer), client_ip)
            except ConnectionDenied as denied:
                await _write_error_response(writer, denied)

    async def _proxy_request(self, client: DuplexStream, client_ip: str) -> None:
        method, target, headers = await _read_request(client.reader)
        if method == "CONNECT":
            host, port = _parse_host_port(f"//{target}", 443)
            server = await self._connector.connect(host, port, client_ip)
            client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host, port = _parse_host_port(target, 80)
            server, host_proxy = await self._connector.connect_for_http(host, port, client_ip)
            server.writer.write(_build_forwarded_request(method, target, headers, host_proxy))
        await splice_streams(client, server)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, list[str]]:
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ConnectionDenied(431, "request header fields too large") from None
    request_line, *headers = head.decode("latin-1").split("\r\n")[:-2]
    match request_line.split(" "):
        case [method, target, _]:
            return method, target, headers
        case _:
            raise ConnectionDenied(400, "malformed HTTP request line")


def _parse_host_port(target: str, default_port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(target)
        if parts.hostname and parts.scheme in ("", "http"):
            return parts.hostname, parts.port or default_port
    except ValueError:
        pass
    raise ConnectionDenied(400, "this is an HTTP proxy: request http://HOST/... or CONNECT HOST:PORT")


def _build_forwarded_request(method: str, target: str, headers: list[str], host_proxy: HostProxy | None) -> bytes:
    parts = urlsplit(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    named = [(each.partition(":")[0].strip().lower(), each) for each in headers]
    forwarded = [each for name, each in named if name not in _HOP_BY_HOP_HEADERS]
    forwarded_target, proxy_headers = (target, host_proxy.headers) if host_proxy else (path, [])
    # A connection that is upgraded stays open; others are closed after the response.
    connection = "Upgrade" if any(name == "upgrade" for name, _ in named) else "close"
    lines = [f"{method} {forwarded_target} HTTP/1.1", *forwarded, *proxy_headers, f"Connection: {connection}", "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _write_error_response(writer: asyncio.StreamWriter, denied: ConnectionDenied) -> None:
    """Write the reason to the status line, too: clients show nothing else of a refused tunnel."""
    message = str(denied).encode("latin-1", "replace")
    head = f"HTTP/1.1 {denied.status_code} ".encode() + message.replace(b"\r", b" ").replace(b"\n", b" ")
    rest = f"\r\nContent-Type: text/plain\r\nContent-Length: {len(message) + 1}\r\nConnection: close\r\n\r\n"
    writer.write(head + rest.encode() + message + b"\n")
    await writer.drain()
