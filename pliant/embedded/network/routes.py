"""Where a pod's connection through the proxy may lead: to the cluster always, outside where that is allowed."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from pliant.embedded.names import Names
from pliant.embedded.network.joining import Stream
from pliant.embedded.network.relay import Relay
from pliant.embedded.network.upstream import Upstream
from pliant.embedded.network.zone import Zone
from pliant.embedded.node.link import AgentLost, NodeAgent

CLUSTER = (ipaddress.ip_network("10.88.0.0/16"), ipaddress.ip_network("10.96.0.0/16"))
"""The addresses of pods and of services."""
_LOOPBACK = ipaddress.ip_address("127.0.0.1")
_PATIENCE = 10.0
"""Seconds for somebody outside to take a connection."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """What pods may reach beyond the cluster."""

    outside: bool = True
    host_loopback: bool = False
    """Also what listens on 127.0.0.1 of this machine."""
    plain: bool = True
    """By plain sockets where `pasta` is installed; else by a proxy and well-known ports alone."""


class Refused(Exception):
    """A connection that is not made; the words are for the pod that wanted it."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Routes:
    """Makes connections on behalf of pods."""

    def __init__(self, agent: NodeAgent, names: Names, upstream: Upstream, egress: Egress) -> None:
        self._agent = agent
        self._upstream = upstream
        self._names = names
        self._zone = Zone(names)
        self._egress = egress

    async def connected(self, host: str, port: int, asker: str) -> Stream:
        """A connection to a host as the pod at the address `asker` knows it, or else Refused."""
        inside = self._inside(host, asker)
        if inside:
            return await self._to_pod(host, inside, port)
        self._require_outside(host)
        relay = Relay.towards("https", host, port)
        return await (_told(host, port, relay.tunnelled(host, port)) if relay else self._to_outside(host, port))

    async def connected_for_requests(self, host: str, port: int, asker: str) -> tuple[Stream, Relay | None]:
        """The same for plain requests, which a proxy of this machine wants for itself; that proxy, if so."""
        relay = None if self._inside(host, asker) else Relay.towards("http", host, port)
        if relay is None:
            return await self.connected(host, port, asker), None
        self._require_outside(host)
        return await _told(host, port, relay.reached()), relay

    def _require_outside(self, host: str) -> None:
        """Refuse hosts that pods may not reach beyond the cluster, as far as their name tells."""
        known = _LOOPBACK if _is_this_machine(host) else _literal(host)
        if known is not None and not self._is_allowed(known):
            raise _loopback(host)
        if not self._egress.outside:
            raise Refused(403, f"pods of this cluster may not reach {host}: it was started with --no-egress")

    def _inside(self, host: str, asker: str) -> list[str]:
        """The addresses in the cluster that a host stands for."""
        literal = _literal(host)
        if literal is not None:
            return [host] if any(literal in network for network in CLUSTER) else []
        pod = self._names.pod_at(asker)
        found = self._zone.addresses(host, pod.metadata.namespace if pod else "default")
        if not found and self._is_inside_only(host):
            raise Refused(502, f"there is no {host} in this cluster, or nobody behind it is ready")
        return found

    def _is_inside_only(self, host: str) -> bool:
        """Whether a name can mean nothing outside; one of two parts can, when pods may go there."""
        if _is_this_machine(host) or (host.count(".") == 1 and self._egress.outside):
            return False
        return self._zone.is_ours(host)

    async def _to_pod(self, host: str, addresses: list[str], port: int) -> Stream:
        problem: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await Stream.over(await self._agent.connected(address, port))
            except (OSError, AgentLost) as failure:
                problem = failure
        raise Refused(502, f"{host}:{port} cannot be reached: {_why(problem)}")

    async def _to_outside(self, host: str, port: int) -> Stream:
        *others, last = await self._looked_up(host)
        for address in others:
            with suppress(Refused):
                return await _told(host, port, _opened(address, port))
        return await _told(host, port, _opened(last, port))

    async def _looked_up(self, host: str) -> list[str]:
        """The addresses of a host outside that pods may reach."""
        if _is_this_machine(host) and not _literal(host):
            host = str(_LOOPBACK)
        found = [host.strip("[]")] if _literal(host) else await self._upstream.addresses(host)
        if not found:
            raise Refused(502, f"{host} is not known to the resolvers of this machine")
        allowed = [each for each in found if (known := _literal(each)) and self._is_allowed(known)]
        if not allowed:
            raise _loopback(host)
        return allowed

    def _is_allowed(self, address: Address) -> bool:
        if address.is_link_local or address.is_multicast:
            return False
        return self._egress.host_loopback or not (address.is_loopback or address.is_unspecified)


async def _told(host: str, port: int, connecting: Awaitable[Stream]) -> Stream:
    """A connection within due time, or a refusal that tells what went wrong."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await connecting
    except OSError as problem:
        raise Refused(502, f"{host}:{port} cannot be reached: {_why(problem)}") from problem


async def _opened(address: str, port: int) -> Stream:
    return Stream(*await asyncio.open_connection(address, port))


def _literal(host: str) -> Address | None:
    """The address that a host is written as; None for names."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_this_machine(host: str) -> bool:
    literal = _literal(host)
    if literal is not None:
        return literal.is_loopback or literal.is_unspecified
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def _loopback(host: str) -> Refused:
    return Refused(
        403, f"{host} is this machine's own loopback or link: pods reach it only with --allow-host-loopback"
    )


def _why(problem: Exception | None) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return getattr(problem, "strerror", None) or str(problem)
