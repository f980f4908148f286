"""One leader at a time: found dead within its lease, and without comparing the clocks of two machines."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from pliant.errors import ApiError, Conflict, LeaseLost, NotFound, Unreachable
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.election.fencing import FencedTransport, LeaseFence
from pliant.kube.election.lease import Lease, LeaseCandidate, LeaseTimings
from pliant.kube.objects import object_identity
from pliant.kube.resources import LEASES
from pliant.kube.transport.base import Transport

MIN_SLEEP_SECONDS = 0.01
"""Seconds by which two clocks of one machine may differ: waits are never shorter."""

log = logging.getLogger(__name__)


class LeaderElector:
    """Competes for a lease once, and works while holding it.

    A rival waits for the whole lease after it *saw* the last renewal, so after that was asked for. The leader
    stops earlier, counted from *before* it asked. A take-over is conditional on nothing being written meanwhile.
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
        self._client = KubeClient(transport)
        """The leader's own as soon as there is something to lose."""
        self._lease: Lease | None = None
        """As last seen."""
        self._lease_expires_at = 0.0
        """On the loop's clock: from when on the lease may be taken, if nothing is written to it until then."""
        self._lease_changed = asyncio.Event()
        self._last_error: ApiError | None = None
        """What stood in the way of the last renewal."""

    @property
    def is_leading(self) -> bool:
        """Whether the lease is ours, for certain."""
        return self._fence.seconds_until_deadline() > 0

    async def run_as_leader(self, work: Callable[[KubeClient], Awaitable[None]]) -> None:
        """Wait for the lease, then work for as long as it is ours; raises `LeaseLost` when it no longer is.

        The client given to the work starts no request when the lease may be somebody else's. When cancelled, the
        work ends first and the lease is given back then.
        """
        await self._acquire()
        self._client = self._fenced_client
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._renew_forever())
                try:
                    await work(self._client)
                finally:
                    keeping.cancel()
        except BaseExceptionGroup as group:
            if group.subgroup(LeaseLost) is not None:
                raise self._lease_lost_error() from group
            raise
        finally:
            await self._release()

    async def _acquire(self) -> None:
        """Return as soon as the lease is ours."""
        self._observe_lease(await self._read_lease())  # a lacking right is told at once
        if await self._try_acquire():
            return
        self._log_event(logging.INFO, "standing by", leader=self._holder_identity())
        async with asyncio.TaskGroup() as tasks:
            informer = Informer(
                self._client,
                LEASES,
                Lease,
                namespace=self._candidate.namespace,
                fields=f"metadata.name={self._candidate.name}",
                on_change=self._on_lease_event,
            )
            following = tasks.create_task(informer.run())
            while not await self._try_acquire():
                await self._wait_for_change_or_expiry()
            following.cancel()

    def _on_lease_event(self, old: Lease | None, new: Lease | None) -> None:
        """Take in what the watch tells, unless it is older than what is known."""
        if new is None or self._lease is None or object_identity(new).version > object_identity(self._lease).version:
            self._observe_lease(new)
            self._lease_changed.set()

    def _observe_lease(self, lease: Lease | None) -> None:
        """Note a change of the lease: its present holder keeps it for the whole duration from now."""
        self._lease = lease
        if lease is None:
            return  # deleted under its holder, who may go on until it would have ended
        self._lease_expires_at = asyncio.get_running_loop().time()
        if self._holder_identity() not in ("", self._candidate.identity):
            self._lease_expires_at += lease.spec.lease_duration_seconds or self._timings.duration.total_seconds()

    async def _wait_for_change_or_expiry(self) -> None:
        self._lease_changed.clear()
        try:
            async with asyncio.timeout_at(self._lease_expires_at):
                await self._lease_changed.wait()
        except TimeoutError:
            return

    async def _try_acquire(self) -> bool:
        """Take the lease if it is free; whatever stands in the way is looked at again."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._lease_expires_at:
            return False
        try:
            try:
                await self._write_lease()
            except (Conflict, NotFound):
                self._observe_lease(await self._read_lease())
                return False
        except ApiError as problem:
            # The watch may have told of a new holder meanwhile, who keeps it longer.
            self._lease_expires_at = max(
                self._lease_expires_at, loop.time() + self._timings.retry_period.total_seconds()
            )
            self._log_event(logging.WARNING, "lease not taken", because=problem)
            return False
        self._log_event(logging.INFO, "leading", identity=self._candidate.identity)
        return True

    async def _renew_forever(self) -> None:
        """Renew for ever; raises `LeaseLost` when that has not been possible until the deadline."""
        while True:
            pause = min(self._timings.retry_period.total_seconds(), self._fence.seconds_until_deadline())
            await asyncio.sleep(max(pause, MIN_SLEEP_SECONDS))
            if not self.is_leading:
                raise self._lease_lost_error()
            try:
                await self._renew()
                self._last_error = None
            except ApiError as problem:
                self._last_error = problem
                self._log_event(logging.WARNING, "lease not renewed", because=problem)

    def _lease_lost_error(self) -> LeaseLost:
        """Tell why the lease is lost, whoever noticed it first: the keeper, or the work at the fence."""
        if self._lease is not None and self._holder_identity() != self._candidate.identity:
            return LeaseLost(f"{self._holder_identity() or 'somebody'} took the lease {self._candidate}")
        limit = self._timings.renew_deadline.total_seconds()
        why = self._last_error or "it was not tried, as this process stood still"
        return LeaseLost(f"the lease {self._candidate} could not be renewed within {limit:g}s: {why}")

    async def _renew(self) -> None:
        try:
            await self._write_lease()
        except (Conflict, NotFound):
            # Edited or deleted by hand, or taken; or it was ourselves, and the answer got lost.
            self._lease = await self._read_lease()
            if self._lease is not None and self._holder_identity() != self._candidate.identity:
                self._fence.block()
                raise self._lease_lost_error() from None
            await self._write_lease()

    async def _write_lease(self) -> None:
        """Write down that the lease is ours, provided nobody has written since we last saw it."""
        asked, before = self._uptime(), self._lease
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": self._candidate.identity,
            "leaseDurationSeconds": math.ceil(self._timings.duration.total_seconds()),
            "renewTime": stamp,
        }
        if self._holder_identity() != self._candidate.identity:
            transitions = 0 if before is None else (before.spec.lease_transitions or 0) + 1
            spec |= {"acquireTime": stamp, "leaseTransitions": transitions}
        self._lease = await self._create_or_patch_lease(spec)
        self._fence.allow_until(
            deadline=asked + self._timings.renew_deadline.total_seconds(),
            lease_end=asked + self._timings.duration.total_seconds(),
        )

    async def _read_lease(self) -> Lease | None:
        where = self._candidate
        try:
            return await self._with_timeout(self._client.get(LEASES, where.namespace, where.name, decode_as=Lease))
        except NotFound:
            return None

    async def _create_or_patch_lease(self, spec: dict[str, Any]) -> Lease:
        where = self._candidate
        if self._lease is not None:
            patch = {"metadata": {"resourceVersion": self._lease.metadata.resource_version}, "spec": spec}
            return await self._with_timeout(
                self._client.patch(LEASES, where.namespace, where.name, patch, decode_as=Lease)
            )
        about = {"name": where.name, "namespace": where.namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": about, "spec": spec}
        return await self._with_timeout(self._client.create(LEASES, where.namespace, body, decode_as=Lease))

    async def _with_timeout(self, call: Awaitable[Lease]) -> Lease:
        """Wait for half the deadline at most, so that a dead connection leaves time for another try."""
        patience = self._timings.renew_deadline.total_seconds() / 2
        if self.is_leading:
            patience = min(patience, self._fence.seconds_until_deadline())
        try:
            async with asyncio.timeout(patience):
                return await call
        except TimeoutError:
            raise Unreachable(f"no answer within {patience:.1f}s") from None

    async def _release(self) -> None:
        """Let a rival lead at once; if that cannot be told, it waits for the lease to end."""
        if not self.is_leading:
            return
        try:
            await self._clear_holder()
            self._log_event(logging.INFO, "lease given back")
        except (ApiError, LeaseLost) as problem:
            self._log_event(logging.WARNING, "lease not given back", because=problem)
        finally:
            self._fence.block()

    async def _clear_holder(self) -> None:
        try:
            await self._create_or_patch_lease({"holderIdentity": ""})
        except Conflict:
            # A renewal that was cut off when the work ended may have been written all the same.
            self._lease = await self._read_lease()
            if self._holder_identity() == self._candidate.identity:
                await self._create_or_patch_lease({"holderIdentity": ""})

    def _holder_identity(self) -> str:
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    def _log_event(self, level: int, event: str, **fields: object) -> None:
        log.log(level, event, extra={"lease": str(self._candidate), **{name: str(fields[name]) for name in fields}})
