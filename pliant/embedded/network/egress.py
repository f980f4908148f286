"""The way out for pods: an HTTP proxy on their network that makes connections on this machine's behalf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from pliant.embedded.network.connections import Connections
from pliant.embedded.network.joining import Stream, joined
from pliant.embedded.network.relay import Relay
from pliant.embedded.network.routes import CLUSTER, Refused, Routes
from pliant.embedded.node.link import NodeAgent

PORT = 3128
_LONGEST_HEAD = 64 * 1024
_PATIENCE = 60.0
"""Seconds for a client to say what it wants."""
_BETWEEN_TWO = frozenset({"connection", "proxy-connection", "proxy-authorization", "keep-alive"})
"""Headers that concern only the client and the proxy."""
_NAMES = {"http_proxy", "https_proxy"}
_ALWAYS_DIRECT = ("localhost", "127.0.0.1", "::1", ".svc", ".cluster.local")


def proxy_variables(gateway: str, direct: Iterable[str]) -> dict[str, str]:
    """What tells programs of the proxy, and of what they reach without it: the cluster and names in `direct`."""
    url = f"http://{gateway}:{PORT}"
    without = ",".join([*_ALWAYS_DIRECT, gateway, *map(str, CLUSTER), *direct])
    variables = {**dict.fromkeys(sorted(_NAMES), url), "no_proxy": without}
    return variables | {name.upper(): value for name, value in variables.items()}


class EgressProxy:
    """Answers CONNECT and requests for whole addresses; what is refused is told why."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._connections = Connections()

    @classmethod
    @asynccontextmanager
    async def serving(cls, agent: NodeAgent, routes: Routes) -> AsyncIterator[EgressProxy]:
        """A proxy that pods reach at the bridge's address."""
        proxy = cls(routes)
        listener = await agent.open_socket("stream", agent.address, PORT)
        server = await asyncio.start_server(proxy.converse, sock=listener, limit=_LONGEST_HEAD)
        try:
            yield proxy
        finally:
            server.close()
            await proxy._connections.end()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a pod."""
        here = Stream(reader, writer)
        asker = writer.get_extra_info("peername")[0]
        with self._connections.noted(writer), suppress(OSError, asyncio.IncompleteReadError):
            try:
                await self._serve(here, asker)
            except Refused as refusal:
                await _refuse(writer, refusal)

    async def _serve(self, here: Stream, asker: str) -> None:
        method, target, headers = await _request(here.reader)
        if method == "CONNECT":
            host, port = _place(f"//{target}", 443)
            there = await self._routes.connected(host, port, asker)
            here.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host, port = _place(target, 80)
            there, relay = await self._routes.connected_for_requests(host, port, asker)
            there.writer.write(_passed_on(method, target, headers, relay))
        await joined(here, there)


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, list[str]]:
    """Method, target and headers of what a client wants."""
    try:
        async with asyncio.timeout(_PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused(431, "the headers of this request are too long") from None
    first, *headers = head.decode("latin-1").split("\r\n")[:-2]
    match first.split(" "):
        case [method, target, _]:
            return method, target, headers
        case _:
            raise Refused(400, "this is not a request that an HTTP proxy understands")


def _place(target: str, usual: int) -> tuple[str, int]:
    """Host and port of a target."""
    try:
        parts = urlsplit(target)
        if parts.hostname and parts.scheme in ("", "http"):
            return parts.hostname, parts.port or usual
    except ValueError:
        pass  # a port that is no number, brackets that do not close
    raise Refused(400, "this is an HTTP proxy: ask for http://HOST/..., or CONNECT to HOST:PORT")


def _passed_on(method: str, target: str, headers: list[str], relay: Relay | None) -> bytes:
    """A request as the next one expects it, and the last one on its connection."""
    parts = urlsplit(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    named = [(each.partition(":")[0].strip().lower(), each) for each in headers]
    kept = [each for name, each in named if name not in _BETWEEN_TWO]
    wanted, more = (target, relay.headers) if relay else (path, [])
    # A connection that is to become another kind of one stays open; all others end with their answer.
    future = "Upgrade" if any(name == "upgrade" for name, _ in named) else "close"
    lines = [f"{method} {wanted} HTTP/1.1", *kept, *more, f"Connection: {future}", "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _refuse(writer: asyncio.StreamWriter, refusal: Refused) -> None:
    """Say why, also in the first line: of a refused tunnel clients show no more."""
    words = str(refusal).encode("latin-1", "replace")
    head = f"HTTP/1.1 {refusal.code} ".encode() + words.replace(b"\r", b" ").replace(b"\n", b" ")
    rest = f"\r\nContent-Type: text/plain\r\nContent-Length: {len(words) + 1}\r\nConnection: close\r\n\r\n"
    writer.write(head + rest.encode() + words + b"\n")
    await writer.drain()
