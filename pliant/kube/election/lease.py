"""The Lease of a leader election, and the fence that blocks requests once another process may lead."""

from __future__ import annotations

import math
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from pliant.errors import LeaseLost, UserError
from pliant.kube.objects import ObjectMeta
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The holder of a lease. Its timestamps are not read: they come from the clock of another machine."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """Lease duration, the deadline of the leader to renew the lease, and the interval of renewals."""

    duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.retry_period < self.renew_deadline < self.duration >= timedelta(seconds=1):
            raise UserError(
                "the lease duration must be at least 1s and longer than the renew deadline, which must be longer than "
                f"the retry period; got {self.duration}, {self.renew_deadline} and {self.retry_period}"
            )

    @classmethod
    def from_duration(
        cls, duration: timedelta, renew_deadline: timedelta | None = None, retry_period: timedelta | None = None
    ) -> LeaseTimings:
        """Derive the timings from the duration: by default 2/3 of it for the deadline and 2/15 for the period."""
        return cls(
            duration=duration,
            renew_deadline=renew_deadline or duration * 2 / 3,
            retry_period=retry_period or duration * 2 / 15,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCandidate:
    namespace: str
    name: str
    identity: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def generate_process_identity() -> str:
    """Return a unique identity, which differs even from that of a restarted process in the same pod."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class LeaseFence:
    """The time until which a leader may act. It blocks until `allow_until`, and after the deadline."""

    def __init__(self, uptime: Callable[[], float]) -> None:
        self._uptime = uptime  # must advance while the process is stopped or the machine is suspended
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
