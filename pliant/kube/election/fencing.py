"""Prevents a process from sending requests once it may no longer be the leader, even after it was paused."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from pliant.errors import LeaseLost
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport


class LeaseFence:
    """The time until which a leader may act. It blocks until `allow_until`, and after the deadline."""

    def __init__(self, uptime: Callable[[], float]) -> None:
        self._uptime = uptime
        """Must advance while the process is stopped or the machine is suspended."""
        self._deadline = -math.inf
        self._lease_end = -math.inf

    def allow_until(self, *, deadline: float, lease_end: float) -> None:
        """Allow requests to start until the deadline; after `lease_end` another process may lead."""
        self._deadline = deadline
        self._lease_end = lease_end

    def block(self) -> None:
        self._deadline = -math.inf

    def seconds_until_deadline(self) -> float:
        return self._deadline - self._uptime()

    def require_lease_seconds(self) -> float:
        """Return the remaining lease duration; raise `LeaseLost` after the deadline."""
        now = self._uptime()
        if now >= self._deadline:
            raise LeaseLost("the lease was not renewed in time; another process may be leading")
        return self._lease_end - now


class FencedTransport(Transport):
    """Checks the fence before each request, and limits the timeout of writes to the remaining lease duration."""

    def __init__(self, inner: Transport, fence: LeaseFence) -> None:
        self._inner = inner
        self._fence = fence

    async def send(self, request: Request) -> Reply:
        lease_seconds = self._fence.require_lease_seconds()
        # A read changes nothing, and the first list of a large cluster may be slow.
        is_short = request.method == "GET" or (request.timeout is not None and request.timeout <= lease_seconds)
        timeout = request.timeout if is_short else lease_seconds
        return await self._inner.send(replace(request, timeout=timeout, before_send=self._fence.require_lease_seconds))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        self._fence.require_lease_seconds()
        return self._inner.stream(replace(request, before_send=self._fence.require_lease_seconds))

    async def aclose(self) -> None:
        """Do nothing: the owner of the inner transport closes it."""
