"""Transports that misbehave on purpose, at a chosen write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport


class Mortal:
    """A transport whose owner dies at its nth write, before it is sent or before its reply is read."""

    def __init__(self, inner: Transport, *, fatal: int | None = None, is_sent: bool = False) -> None:
        self.writes = 0
        self.died = asyncio.Event()
        self._inner = inner
        self._fatal = fatal
        self._is_sent = is_sent

    async def send(self, request: Request) -> Reply:
        """Exchange one request, unless the owner is dead or dies over it."""
        await self._only_the_living()
        if request.method == "GET":
            return await self._inner.send(request)
        self.writes += 1
        if self.writes == self._fatal:
            self.died.set()
            if self._is_sent:
                await self._inner.send(request)
            await self._only_the_living()
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream."""
        await self._only_the_living()
        async with self._inner.stream(request) as reply:
            yield reply

    async def aclose(self) -> None:
        """Nothing is held."""

    async def _only_the_living(self) -> None:
        if self.died.is_set():
            await asyncio.Event().wait()  # the dead wait for ever


class Straggling(Mortal):
    """A transport whose owner dies at its nth write while that is under way, to arrive much later."""

    def __init__(self, inner: Transport, *, fatal: int, arrives_after: float) -> None:
        super().__init__(inner, fatal=fatal)
        self._arrives_after = arrives_after
        self._straggler: asyncio.Task[Reply] | None = None

    async def send(self, request: Request) -> Reply:
        """Exchange one request, unless the owner is dead or dies over it."""
        if request.method != "GET" and self.writes + 1 == self._fatal and not self.died.is_set():
            self._straggler = asyncio.create_task(self._arrive(request))
        return await super().send(request)

    async def _arrive(self, request: Request) -> Reply:
        await asyncio.sleep(self._arrives_after)
        return await self._inner.send(request)


class Faulty:
    """A transport on which one write goes wrong while its owner lives on."""

    def __init__(self, inner: Transport, *, at: int, fault: str) -> None:
        self.writes = 0
        self._inner = inner
        self._at = at
        self._fault = fault

    async def send(self, request: Request) -> Reply:
        """Exchange one request; the chosen write is lost, answered by nobody, or answered with an error."""
        if request.method == "GET":
            return await self._inner.send(request)
        self.writes += 1
        if self.writes != self._at:
            return await self._inner.send(request)
        match self._fault:
            case "request lost":
                raise Unreachable("connection reset")
            case "reply lost":
                await self._inner.send(request)
                raise Unreachable("connection reset")
            case "server error":
                return Reply(status=500, body=b"oops")
            case "error after commit":
                await self._inner.send(request)
                return Reply(status=504, body=b"")
            case _:
                return Reply(status=429, body=b"", headers={"Retry-After": "1"})

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream."""
        async with self._inner.stream(request) as reply:
            yield reply

    async def aclose(self) -> None:
        """Nothing is held."""


FAULTS = ("request lost", "reply lost", "server error", "error after commit", "too many requests")
