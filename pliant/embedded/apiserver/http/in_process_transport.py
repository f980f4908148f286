"""A client transport that calls the API server in the same process, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pliant.embedded.apiserver.auth.users import ADMIN_USER, UserInfo
from pliant.embedded.apiserver.server import ApiServer
from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport


class InProcessTransport(Transport):
    """Behaves like a network transport: bodies are bytes, and requests fail after `aclose`."""

    def __init__(self, api: ApiServer, user: UserInfo = ADMIN_USER) -> None:
        self._api = api
        self._user = user
        self._is_closed = False

    async def send(self, request: Request) -> Reply:
        async with _request_timeout(request):
            reply = await self._handle(request)
            if isinstance(reply, Reply):
                return reply
            body = b"".join([chunk async for chunk in reply.chunks])
        return Reply(status=reply.status, body=body, content_type=reply.content_type, headers=reply.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        async with _request_timeout(request):
            reply = await self._handle(request)
        chunks = _single_chunk(reply.body) if isinstance(reply, Reply) else reply.chunks
        try:
            yield StreamReply(
                status=reply.status, chunks=chunks, content_type=reply.content_type, headers=reply.headers
            )
        finally:
            await close_stream(chunks)

    async def aclose(self) -> None:
        self._is_closed = True

    async def _handle(self, request: Request) -> Reply | StreamReply:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        return await self._api.handle(request, self._user)


@asynccontextmanager
async def _request_timeout(request: Request) -> AsyncIterator[None]:
    """Raise `Unreachable` when the request times out; the server may process it nevertheless."""
    try:
        async with asyncio.timeout(request.timeout):
            yield
    except TimeoutError:
        raise Unreachable(f"{request.method} {request.path}: request timed out") from None


async def close_stream(chunks: AsyncIterator[bytes]) -> None:
    aclose = getattr(chunks, "aclose", None)
    if aclose is not None:
        await aclose()


async def _single_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body
