"""Lets the operator of a local cluster work while no installed operator leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from pliant.errors import LeaseLost
from pliant.kube.election.lease import Lease, LeaseTimings
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport

if TYPE_CHECKING:
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject

LEASES_RESOURCE_KEY = "coordination.k8s.io/leases"

log = logging.getLogger(__name__)


class LocalLeadership:
    """Knows whether an operator with a Lease of this name leads; the built-in operator works only if none does.

    It learns of a new holder when the Lease is committed, which is before the holder gets its response. So the
    built-in operator sends no request while another one leads. It does not write the Lease itself.
    """

    def __init__(self, lease_name: str) -> None:
        self._lease_name = lease_name
        self._expires_at: dict[str, float] = {}
        """When each Lease with a holder expires unless it is renewed, by namespace, in event loop time."""
        self._holder = ""
        self._changed = asyncio.Event()

    @classmethod
    def observe(cls, cluster: EmbeddedCluster, lease_name: str) -> LocalLeadership:
        """Observe the Leases of a cluster, beginning with those that exist."""
        leadership = cls(lease_name)
        for record in cluster.observe_objects(LEASES_RESOURCE_KEY, leadership.on_commit):
            leadership.on_lease(record, is_deleted=False)
        return leadership

    @property
    def is_free(self) -> bool:
        return self._free_at() <= asyncio.get_running_loop().time()

    def require_free(self) -> None:
        """Raise `LeaseLost` if another operator leads."""
        if not self.is_free:
            raise LeaseLost(f"the installed operator {self._holder} leads")

    def with_gate(self, transport: Transport) -> Transport:
        """Return a transport that sends requests only while no other operator leads."""
        return _GatedTransport(transport, self)

    def on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if change.after.key.resource == LEASES_RESOURCE_KEY:
                self.on_lease(change.after, is_deleted=change.is_deleted)

    def on_lease(self, record: StoredObject, *, is_deleted: bool) -> None:
        """Record the holder of a Lease; the last holder of a deleted Lease may continue until it expires."""
        if record.key.name != self._lease_name or is_deleted:
            return
        spec = msgspec.json.decode(record.body, type=Lease).spec
        if spec.holder_identity:
            default = LeaseTimings().duration.total_seconds()
            duration = spec.lease_duration_seconds or default
            self._expires_at[record.key.namespace] = asyncio.get_running_loop().time() + duration
            self._holder = spec.holder_identity
        else:
            self._expires_at.pop(record.key.namespace, None)
        self._changed.set()

    async def run_while_free(self, work: Callable[[], Awaitable[None]], on_standby: Callable[[], None]) -> None:
        """Run the work whenever no other operator leads, and cancel it when one begins to."""
        while True:
            if not self.is_free:
                log.info("operator stands by: an installed operator leads", extra={"leader": self._holder})
                on_standby()
                await self._wait_until(lambda: self.is_free)
                log.info("operator continues: no installed operator leads")
            await self._run_until_taken(work)

    async def _run_until_taken(self, work: Callable[[], Awaitable[None]]) -> None:
        working = asyncio.ensure_future(work())
        taken = asyncio.ensure_future(self._wait_until(lambda: not self.is_free))
        try:
            await asyncio.wait({working, taken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            taken.cancel()
            is_taken = not self.is_free
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        with suppress(asyncio.CancelledError):
            error = working.exception()
            is_stopped = is_taken and isinstance(error, LeaseLost | BaseExceptionGroup)
            if error is not None and not is_stopped:
                raise error

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        while not condition():
            self._changed.clear()
            # A Lease that is held expires some time; a free one changes only by a write.
            deadline = None if self.is_free else max(self._free_at(), loop.time())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()

    def _free_at(self) -> float:
        return max(self._expires_at.values(), default=0.0)


class _GatedTransport(Transport):
    """Checks before each request that no other operator leads."""

    def __init__(self, inner: Transport, leadership: LocalLeadership) -> None:
        self._inner = inner
        self._leadership = leadership

    async def send(self, request: Request) -> Reply:
        self._leadership.require_free()
        return await self._inner.send(replace(request, before_send=self._leadership.require_free))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        self._leadership.require_free()
        return self._inner.stream(request)

    async def aclose(self) -> None:
        """Do nothing: the owner of the inner transport closes it."""
