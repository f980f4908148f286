"""The HTTP proxy that the host itself uses, if its environment names one."""

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
        return cls(
            host=url.hostname,
            port=url.port or _DEFAULT_PORTS[url.scheme],
            use_tls=url.scheme == "https",
            authorization=basic_header(unquote(url.username), unquote(url.password or "")) if url.username else "",
        )

    @property
    def headers(self) -> list[str]:
        return [f"Proxy-Authorization: {self.authorization}"] if self.authorization else []

    async def connect(self) -> Stream:
        return Stream(*await asyncio.open_connection(self.host, self.port, ssl=self.use_tls or None))

    async def open_tunnel(self, host: str, port: int) -> Stream:
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
