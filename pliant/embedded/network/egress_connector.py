"""Connections of pods to the cluster and, if the egress policy allows it, to external hosts."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pliant.embedded.kubelet.runtime.messages import AgentLost
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.network.dns_upstream import UpstreamResolver
from pliant.embedded.network.dns_zone import DnsZone
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.network.streams import DuplexStream
from pliant.kube.auth.credentials import basic_header
from pliant.kube.transport.proxies import proxy_from_environment

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProxy:
    host: str
    port: int
    use_tls: bool = False
    authorization: str = ""

    @classmethod
    def for_target(cls, scheme: str, host: str, port: int) -> HostProxy | None:
        bracketed = f"[{host}]" if ":" in host else host
        url = urlsplit(proxy_from_environment(f"{scheme}://{bracketed}:{port}") or "")
        if url.scheme not in _DEFAULT_PORTS or not url.hostname:
            return None
        authorization = basic_header(unquote(url.username), unquote(url.password or "")) if url.username else ""
        port = url.port or _DEFAULT_PORTS[url.scheme]
        return cls(host=url.hostname, port=port, use_tls=url.scheme == "https", authorization=authorization)

    @property
    def headers(self) -> list[str]:
        return [f"Proxy-Authorization: {self.authorization}"] if self.authorization else []

    async def connect(self) -> DuplexStream:
        return DuplexStream(*await asyncio.open_connection(self.host, self.port, ssl=self.use_tls or None))

    async def open_tunnel(self, host: str, port: int) -> DuplexStream:
        """Connect to a host through the proxy; raise ConnectionRefusedError if the proxy rejects it."""
        stream = await self.connect()
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *self.headers, "", ""]
        stream.writer.write("\r\n".join(lines).encode("latin-1"))
        try:
            head = await stream.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = b"connection closed\r\n"
        status_line = head.partition(b"\r\n")[0].decode("latin-1")
        if status_line.split(" ")[1:2] != ["200"]:
            stream.abort()
            raise ConnectionRefusedError(f"proxy {self.host}:{self.port} of the host responded: {status_line}")
        return stream


CLUSTER_NETWORKS = (ipaddress.ip_network("10.88.0.0/16"), ipaddress.ip_network("10.96.0.0/16"))
"""The networks of pods and of services."""
_LOOPBACK = ipaddress.ip_address("127.0.0.1")
_CONNECT_TIMEOUT = 10.0

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    allow_external: bool = True
    allow_host_loopback: bool = False
    """Whether pods may connect to 127.0.0.1 of the host."""
    use_pasta: bool = True
    """Use `pasta` if it is installed; otherwise the HTTP proxy and the transparent proxy."""


class ConnectionDenied(Exception):
    """A connection that is refused; the message is sent to the pod."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


class EgressConnector:
    def __init__(
        self, agent: NodeAgentClient, service_index: ServiceIndex, upstream: UpstreamResolver, policy: EgressPolicy
    ) -> None:
        self._agent = agent
        self._upstream = upstream
        self._service_index = service_index
        self._zone = DnsZone(service_index)
        self._policy = policy

    async def connect(self, host: str, port: int, client_ip: str) -> DuplexStream:
        """Connect to a host, resolved as the pod at `client_ip` resolves it; raise ConnectionDenied if that fails."""
        cluster_addresses = self._resolve_in_cluster(host, client_ip)
        if cluster_addresses:
            return await self._connect_to_pod(host, cluster_addresses, port)
        self._require_external_allowed(host)
        host_proxy = HostProxy.for_target("https", host, port)
        return await (
            _connect_or_deny(host, port, host_proxy.open_tunnel(host, port))
            if host_proxy
            else self._connect_external(host, port)
        )

    async def connect_for_http(self, host: str, port: int, client_ip: str) -> tuple[DuplexStream, HostProxy | None]:
        """Connect for a plain HTTP request; also return the host's proxy if the connection goes to it."""
        host_proxy = None if self._resolve_in_cluster(host, client_ip) else HostProxy.for_target("http", host, port)
        if host_proxy is None:
            return await self.connect(host, port, client_ip), None
        self._require_external_allowed(host)
        return await _connect_or_deny(host, port, host_proxy.connect()), host_proxy

    def _require_external_allowed(self, host: str) -> None:
        address = _LOOPBACK if _is_host_loopback(host) else _parse_ip(host)
        if address is not None and not self._is_allowed_address(address):
            raise _loopback_denied(host)
        if not self._policy.allow_external:
            raise ConnectionDenied(403, f"egress to {host} is denied: the cluster was started with --no-egress")

    def _resolve_in_cluster(self, host: str, client_ip: str) -> list[str]:
        address = _parse_ip(host)
        if address is not None:
            return [host] if any(address in network for network in CLUSTER_NETWORKS) else []
        pod = self._service_index.pod_by_ip(client_ip)
        addresses = self._zone.resolve_addresses(host, pod.metadata.namespace if pod else "default")
        if not addresses and self._is_cluster_only_name(host):
            raise ConnectionDenied(502, f"{host} does not exist in the cluster, or has no ready endpoints")
        return addresses

    def _is_cluster_only_name(self, host: str) -> bool:
        """Return whether a name cannot be external; a name of two labels can, if egress is allowed."""
        if _is_host_loopback(host) or (host.count(".") == 1 and self._policy.allow_external):
            return False
        return self._zone.is_cluster_name(host)

    async def _connect_to_pod(self, host: str, addresses: list[str], port: int) -> DuplexStream:
        last_error: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    return await DuplexStream.from_socket(await self._agent.connect_in_pod_network(address, port))
            except (OSError, AgentLost) as error:
                last_error = error
        raise ConnectionDenied(502, f"cannot connect to {host}:{port}: {_failure_text(last_error)}")

    async def _connect_external(self, host: str, port: int) -> DuplexStream:
        *others, last = await self._resolve_external(host)
        for address in others:
            with suppress(ConnectionDenied):
                return await _connect_or_deny(host, port, _open_stream(address, port))
        return await _connect_or_deny(host, port, _open_stream(last, port))

    async def _resolve_external(self, host: str) -> list[str]:
        if _is_host_loopback(host) and not _parse_ip(host):
            host = str(_LOOPBACK)
        addresses = [host.strip("[]")] if _parse_ip(host) else await self._upstream.resolve_addresses(host)
        if not addresses:
            raise ConnectionDenied(502, f"cannot resolve {host}: the DNS servers of the host do not know it")
        allowed = [each for each in addresses if (address := _parse_ip(each)) and self._is_allowed_address(address)]
        if not allowed:
            raise _loopback_denied(host)
        return allowed

    def _is_allowed_address(self, address: IpAddress) -> bool:
        if address.is_link_local or address.is_multicast:
            return False
        return self._policy.allow_host_loopback or not (address.is_loopback or address.is_unspecified)


async def _connect_or_deny(host: str, port: int, connecting: Awaitable[DuplexStream]) -> DuplexStream:
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            return await connecting
    except OSError as error:
        raise ConnectionDenied(502, f"cannot connect to {host}:{port}: {_failure_text(error)}") from error


async def _open_stream(address: str, port: int) -> DuplexStream:
    return DuplexStream(*await asyncio.open_connection(address, port))


def _parse_ip(host: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_host_loopback(host: str) -> bool:
    address = _parse_ip(host)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def _loopback_denied(host: str) -> ConnectionDenied:
    message = f"{host} is a loopback or link-local address of the host: pods need --allow-host-loopback to reach it"
    return ConnectionDenied(403, message)


def _failure_text(error: Exception | None) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return getattr(error, "strerror", None) or str(error)
