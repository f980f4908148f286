"""The proxy that this machine itself goes out through, where its environment names one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pliant.embedded.network.streams import Stream
from pliant.kube.auth.credentials import basic_header
from pliant.kube.client_config import proxy_from_environment

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProxy:
    """Where the proxy is, and what it must be told of us."""

    host: str
    port: int
    use_tls: bool = False
    authorization: str = ""

    @classmethod
    def for_target(cls, scheme: str, host: str, port: int) -> HostProxy | None:
        """The proxy for a host outside; None where this machine goes there directly."""
        bracketed = f"[{host}]" if ":" in host else host
        found = urlsplit(proxy_from_environment(f"{scheme}://{bracketed}:{port}") or "")
        if found.scheme not in _DEFAULT_PORTS or not found.hostname:
            return None
        return cls(
            host=found.hostname,
            port=found.port or _DEFAULT_PORTS[found.scheme],
            use_tls=found.scheme == "https",
            authorization=basic_header(unquote(found.username), unquote(found.password or ""))
            if found.username
            else "",
        )

    @property
    def headers(self) -> list[str]:
        """What every request to the proxy carries."""
        return [f"Proxy-Authorization: {self.authorization}"] if self.authorization else []

    async def connect(self) -> Stream:
        """A connection to the proxy."""
        return Stream(*await asyncio.open_connection(self.host, self.port, ssl=self.use_tls or None))

    async def open_tunnel(self, host: str, port: int) -> Stream:
        """A connection to a host through the proxy; ConnectionRefusedError tells why there is none."""
        stream = await self.connect()
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *self.headers, "", ""]
        stream.writer.write("\r\n".join(lines).encode("latin-1"))
        try:
            head = await stream.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = b"it hung up\r\n"
        said = head.partition(b"\r\n")[0].decode("latin-1")
        if said.split(" ")[1:2] != ["200"]:
            stream.abort()
            raise ConnectionRefusedError(f"the proxy {self.host}:{self.port} of this machine said: {said}")
        return stream
