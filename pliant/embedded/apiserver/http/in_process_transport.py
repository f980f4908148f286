"""Requests to the embedded server without a socket: the same bytes, in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pliant.embedded.apiserver.server import ApiServer
from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport


class InProcessTransport(Transport):
    """Calls the server as if over a network: bodies are bytes, a closed transport reaches nobody."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._is_closed = False

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        async with _request_timeout(request):
            answer = await self._handle(request)
            if isinstance(answer, Reply):
                return answer
            body = b"".join([chunk async for chunk in answer.chunks])
        return Reply(status=answer.status, body=body, content_type=answer.content_type, headers=answer.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream; leaving the context ends it."""
        async with _request_timeout(request):
            answer = await self._handle(request)
        chunks = _single_chunk(answer.body) if isinstance(answer, Reply) else answer.chunks
        try:
            yield StreamReply(
                status=answer.status, chunks=chunks, content_type=answer.content_type, headers=answer.headers
            )
        finally:
            await close_stream(chunks)

    async def aclose(self) -> None:
        """Reach the server no longer."""
        self._is_closed = True

    async def _handle(self, request: Request) -> Reply | StreamReply:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        return await self._api.handle(request)


@asynccontextmanager
async def _request_timeout(request: Request) -> AsyncIterator[None]:
    """Give up when the time is over that a request allows; what it asked for may be done all the same."""
    try:
        async with asyncio.timeout(request.timeout):
            yield
    except TimeoutError:
        raise Unreachable(f"{request.method} {request.path}: no answer in time") from None


async def close_stream(chunks: AsyncIterator[bytes]) -> None:
    """End a stream that may not have been read to its end."""
    aclose = getattr(chunks, "aclose", None)
    if aclose is not None:
        await aclose()


async def _single_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body
