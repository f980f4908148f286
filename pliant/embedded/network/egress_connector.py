"""Where a pod's connection through the proxy may lead: to the cluster always, outside where that is allowed."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from pliant.embedded.kubelet.runtime.node_agent import AgentLost, NodeAgent
from pliant.embedded.network.dns_upstream import UpstreamResolver
from pliant.embedded.network.dns_zone import DnsZone
from pliant.embedded.network.host_proxy import HostProxy
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.network.streams import Stream

CLUSTER_NETWORKS = (ipaddress.ip_network("10.88.0.0/16"), ipaddress.ip_network("10.96.0.0/16"))
"""The addresses of pods and of services."""
_LOOPBACK = ipaddress.ip_address("127.0.0.1")
_CONNECT_TIMEOUT = 10.0
"""Seconds for somebody outside to take a connection."""

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """What pods may reach beyond the cluster."""

    allow_external: bool = True
    allow_host_loopback: bool = False
    """Also what listens on 127.0.0.1 of this machine."""
    use_pasta: bool = True
    """By plain sockets where `pasta` is installed; else by a proxy and well-known ports alone."""


class ConnectionDenied(Exception):
    """A connection that is not made; the words are for the pod that wanted it."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


class EgressConnector:
    """Makes connections on behalf of pods."""

    def __init__(
        self, agent: NodeAgent, service_index: ServiceIndex, upstream: UpstreamResolver, policy: EgressPolicy
    ) -> None:
        self._agent = agent
        self._upstream = upstream
        self._service_index = service_index
        self._zone = DnsZone(service_index)
        self._policy = policy

    async def connect(self, host: str, port: int, client_ip: str) -> Stream:
        """A connection to a host as the pod at the address `asker` knows it, or else Refused."""
        inside = self._resolve_in_cluster(host, client_ip)
        if inside:
            return await self._connect_to_pod(host, inside, port)
        self._require_external_allowed(host)
        relay = HostProxy.for_target("https", host, port)
        return await (
            _connect_or_deny(host, port, relay.open_tunnel(host, port)) if relay else self._connect_external(host, port)
        )

    async def connect_for_http(self, host: str, port: int, client_ip: str) -> tuple[Stream, HostProxy | None]:
        """The same for plain requests, which a proxy of this machine wants for itself; that proxy, if so."""
        relay = None if self._resolve_in_cluster(host, client_ip) else HostProxy.for_target("http", host, port)
        if relay is None:
            return await self.connect(host, port, client_ip), None
        self._require_external_allowed(host)
        return await _connect_or_deny(host, port, relay.connect()), relay

    def _require_external_allowed(self, host: str) -> None:
        """Refuse hosts that pods may not reach beyond the cluster, as far as their name tells."""
        known = _LOOPBACK if _is_host_loopback(host) else _parse_ip(host)
        if known is not None and not self._is_allowed_address(known):
            raise _loopback_denied(host)
        if not self._policy.allow_external:
            raise ConnectionDenied(403, f"pods of this cluster may not reach {host}: it was started with --no-egress")

    def _resolve_in_cluster(self, host: str, client_ip: str) -> list[str]:
        """The addresses in the cluster that a host stands for."""
        literal = _parse_ip(host)
        if literal is not None:
            return [host] if any(literal in network for network in CLUSTER_NETWORKS) else []
        pod = self._service_index.pod_by_ip(client_ip)
        found = self._zone.resolve_addresses(host, pod.metadata.namespace if pod else "default")
        if not found and self._is_cluster_only_name(host):
            raise ConnectionDenied(502, f"there is no {host} in this cluster, or nobody behind it is ready")
        return found

    def _is_cluster_only_name(self, host: str) -> bool:
        """Whether a name can mean nothing outside; one of two parts can, when pods may go there."""
        if _is_host_loopback(host) or (host.count(".") == 1 and self._policy.allow_external):
            return False
        return self._zone.is_cluster_name(host)

    async def _connect_to_pod(self, host: str, addresses: list[str], port: int) -> Stream:
        problem: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    return await Stream.from_socket(await self._agent.connect(address, port))
            except (OSError, AgentLost) as failure:
                problem = failure
        raise ConnectionDenied(502, f"{host}:{port} cannot be reached: {_failure_text(problem)}")

    async def _connect_external(self, host: str, port: int) -> Stream:
        *others, last = await self._resolve_external(host)
        for address in others:
            with suppress(ConnectionDenied):
                return await _connect_or_deny(host, port, _open_stream(address, port))
        return await _connect_or_deny(host, port, _open_stream(last, port))

    async def _resolve_external(self, host: str) -> list[str]:
        """The addresses of a host outside that pods may reach."""
        if _is_host_loopback(host) and not _parse_ip(host):
            host = str(_LOOPBACK)
        found = [host.strip("[]")] if _parse_ip(host) else await self._upstream.resolve_addresses(host)
        if not found:
            raise ConnectionDenied(502, f"{host} is not known to the resolvers of this machine")
        allowed = [each for each in found if (known := _parse_ip(each)) and self._is_allowed_address(known)]
        if not allowed:
            raise _loopback_denied(host)
        return allowed

    def _is_allowed_address(self, address: IpAddress) -> bool:
        if address.is_link_local or address.is_multicast:
            return False
        return self._policy.allow_host_loopback or not (address.is_loopback or address.is_unspecified)


async def _connect_or_deny(host: str, port: int, connecting: Awaitable[Stream]) -> Stream:
    """A connection within due time, or a refusal that tells what went wrong."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            return await connecting
    except OSError as problem:
        raise ConnectionDenied(502, f"{host}:{port} cannot be reached: {_failure_text(problem)}") from problem


async def _open_stream(address: str, port: int) -> Stream:
    return Stream(*await asyncio.open_connection(address, port))


def _parse_ip(host: str) -> IpAddress | None:
    """The address that a host is written as; None for names."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_host_loopback(host: str) -> bool:
    literal = _parse_ip(host)
    if literal is not None:
        return literal.is_loopback or literal.is_unspecified
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def _loopback_denied(host: str) -> ConnectionDenied:
    return ConnectionDenied(
        403, f"{host} is this machine's own loopback or link: pods reach it only with --allow-host-loopback"
    )


def _failure_text(error: Exception | None) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error)
