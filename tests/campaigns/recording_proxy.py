"""A proxy in front of an API server that records each write, and the version of the object that resulted from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml
from aiohttp import ClientResponse, ClientSession, ClientTimeout, TCPConnector, web

from pliant.kube.auth.credentials import ANONYMOUS_CREDENTIAL
from pliant.kube.client_config import find_api_server
from pliant.kube.transport.http import ApiServerEndpoint
from pliant.runtime.clock import SystemClock


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Written(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


@dataclass(frozen=True, kw_only=True)
class RecordedWrite:
    at: float
    """When it arrived, on the loop's clock."""
    method: str
    path: str
    status: int
    version: int | None
    """The version of the object after the write, if the server told it."""

    @property
    def is_of_lease(self) -> bool:
        return "/leases" in self.path


class RecordingProxy:
    def __init__(self, endpoint: ApiServerEndpoint, session: ClientSession, authorization: str) -> None:
        self.writes: list[RecordedWrite] = []
        self.follows_lease = asyncio.Event()
        self._endpoint, self._session, self._authorization = endpoint, session, authorization

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        arrived = asyncio.get_running_loop().time()
        headers = {name: incoming.headers[name] for name in ("Accept", "Content-Type") if name in incoming.headers}
        if self._authorization:
            headers["Authorization"] = self._authorization
        url, body = self._endpoint.url + incoming.raw_path, await incoming.read()
        async with self._session.request(incoming.method, url, headers=headers, data=body) as reply:
            if "watch=true" in incoming.query_string:
                if "/leases" in incoming.path:
                    self.follows_lease.set()
                return await self._stream(incoming, reply)
            content = await reply.read()
            if incoming.method != "GET":
                self._record(arrived, incoming, reply.status, content)
            return web.Response(status=reply.status, body=content, content_type=reply.content_type)

    def _record(self, arrived: float, incoming: web.Request, status: int, content: bytes) -> None:
        try:
            version = msgspec.json.decode(content, type=_Written).metadata.resource_version
        except msgspec.DecodeError:
            version = ""
        self.writes.append(
            RecordedWrite(
                at=arrived,
                method=incoming.method,
                path=incoming.path,
                status=status,
                version=int(version) if version.isdigit() else None,
            )
        )

    async def _stream(self, incoming: web.Request, reply: ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers={"Content-Type": "application/json"})
        with suppress(ConnectionError):  # an operator that was killed reads no more
            await response.prepare(incoming)
            async for chunk in reply.content.iter_any():
                await response.write(chunk)
        return response


@asynccontextmanager
async def recording_proxy(kubeconfig: Path) -> AsyncIterator[tuple[RecordingProxy, str]]:
    """A proxy to the server of a kubeconfig, and the text of a kubeconfig that goes through it."""
    endpoint = find_api_server(kubeconfig, None, {}, SystemClock().now)
    shown = await endpoint.credentials.credential() if endpoint.credentials else ANONYMOUS_CREDENTIAL
    tls = endpoint.tls.build_ssl_context(shown.certificate) if endpoint.tls else False
    async with ClientSession(
        connector=TCPConnector(ssl=tls, limit=0), timeout=ClientTimeout(total=None), auto_decompress=True
    ) as session:
        proxy = RecordingProxy(endpoint, session, shown.authorization)
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://{host}:{port}"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy"}}],
        }
        try:
            yield proxy, yaml.safe_dump(document)
        finally:
            await runner.cleanup()
