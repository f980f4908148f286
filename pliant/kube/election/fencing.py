"""Keeps whoever may no longer be the leader from starting anything, even after having been stopped for a while."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from pliant.errors import LeaseLost
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport


class LeaseFence:
    """Until when a leader may act. It is closed until opened, and closes by itself."""

    def __init__(self, uptime: Callable[[], float]) -> None:
        self._uptime = uptime
        """Must go on while the process is stopped or the machine sleeps."""
        self._deadline = -math.inf
        self._lease_end = -math.inf

    def allow_until(self, *, deadline: float, lease_end: float) -> None:
        """Let requests start until the deadline; at the end of the lease somebody else may lead."""
        self._deadline = deadline
        self._lease_end = lease_end

    def block(self) -> None:
        """Let nothing start any more."""
        self._deadline = -math.inf

    def seconds_until_deadline(self) -> float:
        """How long requests may still start; zero or less when they may not."""
        return self._deadline - self._uptime()

    def require_lease_seconds(self) -> float:
        """How long the lease lasts; raises `LeaseLost` once nothing may start any more."""
        now = self._uptime()
        if now >= self._deadline:
            raise LeaseLost("the lease was not renewed in time; somebody else may be leading")
        return self._lease_end - now


class FencedTransport(Transport):
    """Asks the fence right before each request, and waits for no write longer than the lease lasts."""

    def __init__(self, inner: Transport, fence: LeaseFence) -> None:
        self._inner = inner
        self._fence = fence

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        left = self._fence.require_lease_seconds()
        # A read changes nothing, and the first list of a large cluster may take its time.
        is_short = request.method == "GET" or (request.timeout is not None and request.timeout <= left)
        timeout = request.timeout if is_short else left
        return await self._inner.send(replace(request, timeout=timeout, before_send=self._fence.require_lease_seconds))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Open a stream; leaving the context ends it."""
        self._fence.require_lease_seconds()
        return self._inner.stream(replace(request, before_send=self._fence.require_lease_seconds))

    async def aclose(self) -> None:
        """Leave the connections to their owner: others use them, too."""
