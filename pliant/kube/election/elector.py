"""Leader election by a Lease. It never compares the clocks of two machines."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from pliant.errors import ApiError, Conflict, LeaseLost, NotFound, Unreachable
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.election.lease import FencedTransport, Lease, LeaseCandidate, LeaseFence, LeaseTimings
from pliant.kube.objects import object_identity
from pliant.kube.resources import LEASES
from pliant.kube.transport.base import Transport

MIN_RENEWAL_SLEEP_SECONDS = 0.01  # minimum sleep, because the event loop's clock and `uptime` may differ slightly

log = logging.getLogger(__name__)


class LeaderElector:
    """Waits for a lease once, and runs work while it holds the lease.

    A candidate waits for the full lease duration after it *observed* the last renewal. The leader stops earlier: its
    deadline counts from *before* the renewal request. Taking over requires that the lease has not changed meanwhile.
    """

    def __init__(
        self,
        transport: Transport,
        candidate: LeaseCandidate,
        timings: LeaseTimings,
        *,
        now: Callable[[], datetime],
        uptime: Callable[[], float],
    ) -> None:
        self._candidate = candidate
        self._timings = timings
        self._now = now
        self._uptime = uptime
        self._fence = LeaseFence(uptime)
        self._fenced_client = KubeClient(FencedTransport(transport, self._fence))
        self._client = KubeClient(transport)  # the fenced client while leading
        self._lease: Lease | None = None
        self._lease_expires_at = 0.0
        """When the lease may be taken unless it is renewed, on the clock of the event loop."""
        self._lease_changed = asyncio.Event()
        self._last_error: ApiError | None = None

    @property
    def is_leading(self) -> bool:
        return self._fence.seconds_until_deadline() > 0

    async def run_as_leader(self, work: Callable[[KubeClient], Awaitable[None]]) -> None:
        """Wait for the lease, then run the work while this process leads; raise `LeaseLost` if the lease is lost.

        The client of the work sends no request once another process may lead. On cancellation, the work ends before
        the lease is released.
        """
        await self._acquire()
        self._client = self._fenced_client
        try:
            async with asyncio.TaskGroup() as tasks:
                renewal = tasks.create_task(self._renew_forever())
                try:
                    await work(self._client)
                finally:
                    renewal.cancel()
        except BaseExceptionGroup as group:
            if group.subgroup(LeaseLost) is not None:
                raise self._lease_lost_error() from group
            raise
        finally:
            await self._release()

    async def _acquire(self) -> None:
        self._observe_lease(await self._read_lease())  # fails at once if the permission is missing
        if await self._try_acquire():
            return
        self._log_event(logging.INFO, "waiting for lease", leader=self._holder_identity())
        async with asyncio.TaskGroup() as tasks:
            informer = Informer(
                self._client,
                LEASES,
                Lease,
                namespace=self._candidate.namespace,
                fields=f"metadata.name={self._candidate.name}",
                on_change=self._on_lease_event,
            )
            watching = tasks.create_task(informer.run())
            while not await self._try_acquire():
                await self._wait_for_change_or_expiry()
            watching.cancel()

    def _on_lease_event(self, old: Lease | None, new: Lease | None) -> None:
        if new is None or self._lease is None or object_identity(new).version > object_identity(self._lease).version:
            self._observe_lease(new)
            self._lease_changed.set()

    def _observe_lease(self, lease: Lease | None) -> None:
        """Record a changed lease: its holder keeps it for the full duration from now."""
        self._lease = lease
        if lease is None:
            return  # deleted; the holder may continue until the lease expires
        self._lease_expires_at = asyncio.get_running_loop().time()
        if self._holder_identity() not in ("", self._candidate.identity):
            self._lease_expires_at += lease.spec.lease_duration_seconds or self._timings.duration.total_seconds()

    async def _wait_for_change_or_expiry(self) -> None:
        self._lease_changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._lease_expires_at):
                await self._lease_changed.wait()

    async def _try_acquire(self) -> bool:
        """Take the lease if it is free; after an error, retry later."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._lease_expires_at:
            return False
        try:
            try:
                await self._write_lease()
            except (Conflict, NotFound):
                self._observe_lease(await self._read_lease())
                return False
        except ApiError as error:
            # The watch may have reported a new holder meanwhile.
            self._lease_expires_at = max(
                self._lease_expires_at, loop.time() + self._timings.retry_period.total_seconds()
            )
            self._log_event(logging.WARNING, "failed to acquire lease", error=error)
            return False
        self._log_event(logging.INFO, "acquired lease", identity=self._candidate.identity)
        return True

    async def _renew_forever(self) -> None:
        """Renew the lease until cancelled; raise `LeaseLost` when the renew deadline passes."""
        while True:
            pause = min(self._timings.retry_period.total_seconds(), self._fence.seconds_until_deadline())
            await asyncio.sleep(max(pause, MIN_RENEWAL_SLEEP_SECONDS))
            if not self.is_leading:
                raise self._lease_lost_error()
            try:
                await self._renew()
                self._last_error = None
            except ApiError as error:
                self._last_error = error
                self._log_event(logging.WARNING, "failed to renew lease", error=error)

    def _lease_lost_error(self) -> LeaseLost:
        if self._lease is not None and self._holder_identity() != self._candidate.identity:
            return LeaseLost(f"{self._holder_identity() or 'another process'} acquired the lease {self._candidate}")
        limit = self._timings.renew_deadline.total_seconds()
        reason = self._last_error or "the process was paused"
        return LeaseLost(f"the lease {self._candidate} could not be renewed within {limit:g}s: {reason}")

    async def _renew(self) -> None:
        try:
            await self._write_lease()
        except (Conflict, NotFound):
            # The lease was edited, deleted or taken; or our own write succeeded and its response was lost.
            self._lease = await self._read_lease()
            if self._lease is not None and self._holder_identity() != self._candidate.identity:
                self._fence.block()
                raise self._lease_lost_error() from None
            await self._write_lease()

    async def _write_lease(self) -> None:
        """Write this process as the holder, provided that the lease has not changed since it was read."""
        requested_at, previous = self._uptime(), self._lease
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": self._candidate.identity,
            "leaseDurationSeconds": math.ceil(self._timings.duration.total_seconds()),
            "renewTime": stamp,
        }
        if self._holder_identity() != self._candidate.identity:
            transitions = 0 if previous is None else (previous.spec.lease_transitions or 0) + 1
            spec |= {"acquireTime": stamp, "leaseTransitions": transitions}
        self._lease = await self._create_or_patch_lease(spec)
        self._fence.allow_until(
            deadline=requested_at + self._timings.renew_deadline.total_seconds(),
            lease_end=requested_at + self._timings.duration.total_seconds(),
        )

    async def _read_lease(self) -> Lease | None:
        try:
            get = self._client.get(LEASES, self._candidate.namespace, self._candidate.name, decode_as=Lease)
            return await self._with_timeout(get)
        except NotFound:
            return None

    async def _create_or_patch_lease(self, spec: dict[str, Any]) -> Lease:
        candidate = self._candidate
        if self._lease is not None:
            patch = {"metadata": {"resourceVersion": self._lease.metadata.resource_version}, "spec": spec}
            call = self._client.patch(LEASES, candidate.namespace, candidate.name, patch, decode_as=Lease)
            return await self._with_timeout(call)
        metadata = {"name": candidate.name, "namespace": candidate.namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        return await self._with_timeout(self._client.create(LEASES, candidate.namespace, body, decode_as=Lease))

    async def _with_timeout(self, call: Awaitable[Lease]) -> Lease:
        """Wait at most half the renew deadline, so that a dead connection leaves time to retry."""
        timeout = self._timings.renew_deadline.total_seconds() / 2
        if self.is_leading:
            timeout = min(timeout, self._fence.seconds_until_deadline())
        try:
            async with asyncio.timeout(timeout):
                return await call
        except TimeoutError:
            raise Unreachable(f"no response within {timeout:.1f}s") from None

    async def _release(self) -> None:
        """Clear the holder, so that another candidate can lead at once."""
        if not self.is_leading:
            return
        try:
            await self._clear_holder()
            self._log_event(logging.INFO, "released lease")
        except (ApiError, LeaseLost) as error:
            self._log_event(logging.WARNING, "failed to release lease", error=error)
        finally:
            self._fence.block()

    async def _clear_holder(self) -> None:
        try:
            await self._create_or_patch_lease({"holderIdentity": ""})
        except Conflict:
            # A renewal that was cancelled when the work ended may have been written.
            self._lease = await self._read_lease()
            if self._holder_identity() == self._candidate.identity:
                await self._create_or_patch_lease({"holderIdentity": ""})

    def _holder_identity(self) -> str:
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    def _log_event(self, level: int, event: str, **fields: object) -> None:
        log.log(level, event, extra={"lease": str(self._candidate), **{name: str(fields[name]) for name in fields}})
