"""The way out for pods: an HTTP proxy on their network that makes connections on this machine's behalf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from pliant.embedded.kubelet.runtime.node_agent import NodeAgent
from pliant.embedded.network.egress_connector import CLUSTER_NETWORKS, ConnectionDenied, EgressConnector
from pliant.embedded.network.host_proxy import HostProxy
from pliant.embedded.network.streams import ConnectionTasks, Stream, splice_streams

PROXY_PORT = 3128
_MAX_HEADER_BYTES = 64 * 1024
_REQUEST_TIMEOUT = 60.0
"""Seconds for a client to say what it wants."""
_HOP_BY_HOP_HEADERS = frozenset({"connection", "proxy-connection", "proxy-authorization", "keep-alive"})
"""Headers that concern only the client and the proxy."""
_PROXY_VARIABLES = {"http_proxy", "https_proxy"}
_NO_PROXY_HOSTS = ("localhost", "127.0.0.1", "::1", ".svc", ".cluster.local")


def proxy_variables(gateway: str, no_proxy: Iterable[str]) -> dict[str, str]:
    """What tells programs of the proxy, and of what they reach without it: the cluster and names in `direct`."""
    url = f"http://{gateway}:{PROXY_PORT}"
    without = ",".join([*_NO_PROXY_HOSTS, gateway, *map(str, CLUSTER_NETWORKS), *no_proxy])
    variables = {**dict.fromkeys(sorted(_PROXY_VARIABLES), url), "no_proxy": without}
    return variables | {name.upper(): value for name, value in variables.items()}


class EgressProxy:
    """Answers CONNECT and requests for whole addresses; what is refused is told why."""

    def __init__(self, connector: EgressConnector) -> None:
        self._connector = connector
        self._connections = ConnectionTasks()

    @classmethod
    @asynccontextmanager
    async def serve(cls, agent: NodeAgent, connector: EgressConnector) -> AsyncIterator[EgressProxy]:
        """A proxy that pods reach at the bridge's address."""
        proxy = cls(connector)
        listener = await agent.open_socket("stream", agent.address, PROXY_PORT)
        server = await asyncio.start_server(proxy.serve_connection, sock=listener, limit=_MAX_HEADER_BYTES)
        try:
            yield proxy
        finally:
            server.close()
            await proxy._connections.cancel_all()

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a pod."""
        here = Stream(reader, writer)
        asker = writer.get_extra_info("peername")[0]
        with self._connections.track(writer), suppress(OSError, asyncio.IncompleteReadError):
            try:
                await self._proxy_request(here, asker)
            except ConnectionDenied as refusal:
                await _write_error_response(writer, refusal)

    async def _proxy_request(self, client: Stream, client_ip: str) -> None:
        method, target, headers = await _read_request(client.reader)
        if method == "CONNECT":
            host, port = _parse_host_port(f"//{target}", 443)
            there = await self._connector.connect(host, port, client_ip)
            client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host, port = _parse_host_port(target, 80)
            there, relay = await self._connector.connect_for_http(host, port, client_ip)
            there.writer.write(_build_forwarded_request(method, target, headers, relay))
        await splice_streams(client, there)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, list[str]]:
    """Method, target and headers of what a client wants."""
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ConnectionDenied(431, "the headers of this request are too long") from None
    first, *headers = head.decode("latin-1").split("\r\n")[:-2]
    match first.split(" "):
        case [method, target, _]:
            return method, target, headers
        case _:
            raise ConnectionDenied(400, "this is not a request that an HTTP proxy understands")


def _parse_host_port(target: str, default_port: int) -> tuple[str, int]:
    """Host and port of a target."""
    try:
        parts = urlsplit(target)
        if parts.hostname and parts.scheme in ("", "http"):
            return parts.hostname, parts.port or default_port
    except ValueError:
        pass  # a port that is no number, brackets that do not close
    raise ConnectionDenied(400, "this is an HTTP proxy: ask for http://HOST/..., or CONNECT to HOST:PORT")


def _build_forwarded_request(method: str, target: str, headers: list[str], host_proxy: HostProxy | None) -> bytes:
    """A request as the next one expects it, and the last one on its connection."""
    parts = urlsplit(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    named = [(each.partition(":")[0].strip().lower(), each) for each in headers]
    kept = [each for name, each in named if name not in _HOP_BY_HOP_HEADERS]
    wanted, more = (target, host_proxy.headers) if host_proxy else (path, [])
    # A connection that is to become another kind of one stays open; all others end with their answer.
    future = "Upgrade" if any(name == "upgrade" for name, _ in named) else "close"
    lines = [f"{method} {wanted} HTTP/1.1", *kept, *more, f"Connection: {future}", "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _write_error_response(writer: asyncio.StreamWriter, denied: ConnectionDenied) -> None:
    """Say why, also in the first line: of a refused tunnel clients show no more."""
    words = str(denied).encode("latin-1", "replace")
    head = f"HTTP/1.1 {denied.status_code} ".encode() + words.replace(b"\r", b" ").replace(b"\n", b" ")
    rest = f"\r\nContent-Type: text/plain\r\nContent-Length: {len(words) + 1}\r\nConnection: close\r\n\r\n"
    writer.write(head + rest.encode() + words + b"\n")
    await writer.drain()
