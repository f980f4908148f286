"""One leader at a time: found dead within its lease, and without comparing the clocks of two machines."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from pliant.errors import ApiError, Conflict, LeaseLost, NotFound, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.fencing import Fence, FencedTransport
from pliant.kube.informer import Informer
from pliant.kube.lease import Candidacy, Lease, LeaseTerms
from pliant.kube.objects import identity
from pliant.kube.resources import LEASES
from pliant.kube.transport import Transport

TICK = 0.01
"""Seconds by which two clocks of one machine may differ: waits are never shorter."""

log = logging.getLogger(__name__)


class Elector:
    """Competes for a lease once, and works while holding it.

    A rival waits for the whole lease after it *saw* the last renewal, so after that was asked for. The leader
    stops earlier, counted from *before* it asked. A take-over is conditional on nothing being written meanwhile.
    """

    def __init__(
        self,
        transport: Transport,
        candidacy: Candidacy,
        terms: LeaseTerms,
        *,
        now: Callable[[], datetime],
        uptime: Callable[[], float],
    ) -> None:
        self._candidacy = candidacy
        self._terms = terms
        self._now = now
        self._uptime = uptime
        self._fence = Fence(uptime)
        self._leaders_client = KubeClient(FencedTransport(transport, self._fence))
        self._client = KubeClient(transport)
        """The leader's own as soon as there is something to lose."""
        self._lease: Lease | None = None
        """As last seen."""
        self._free_at = 0.0
        """On the loop's clock: from when on the lease may be taken, if nothing is written to it until then."""
        self._news = asyncio.Event()
        self._problem: ApiError | None = None
        """What stood in the way of the last renewal."""

    @property
    def is_leading(self) -> bool:
        """Whether the lease is ours, for certain."""
        return self._fence.seconds_open() > 0

    async def lead(self, work: Callable[[KubeClient], Awaitable[None]]) -> None:
        """Wait for the lease, then work for as long as it is ours; raises `LeaseLost` when it no longer is.

        The client given to the work starts no request when the lease may be somebody else's. When cancelled, the
        work ends first and the lease is given back then.
        """
        await self._win()
        self._client = self._leaders_client
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep())
                try:
                    await work(self._client)
                finally:
                    keeping.cancel()
        except BaseExceptionGroup as group:
            if group.subgroup(LeaseLost) is not None:
                raise self._lost() from group
            raise
        finally:
            await self._give_back()

    async def _win(self) -> None:
        """Return as soon as the lease is ours."""
        self._see(await self._read())  # a lacking right is told at once
        if await self._took():
            return
        self._tell(logging.INFO, "standing by", leader=self._holder())
        async with asyncio.TaskGroup() as tasks:
            informer = Informer(
                self._client,
                LEASES,
                Lease,
                namespace=self._candidacy.namespace,
                fields=f"metadata.name={self._candidacy.name}",
                on_change=self._hear,
            )
            following = tasks.create_task(informer.run())
            while not await self._took():
                await self._until_free_or_news()
            following.cancel()

    def _hear(self, old: Lease | None, new: Lease | None) -> None:
        """Take in what the watch tells, unless it is older than what is known."""
        if new is None or self._lease is None or identity(new).version > identity(self._lease).version:
            self._see(new)
            self._news.set()

    def _see(self, lease: Lease | None) -> None:
        """Note a change of the lease: its present holder keeps it for the whole duration from now."""
        self._lease = lease
        if lease is None:
            return  # deleted under its holder, who may go on until it would have ended
        self._free_at = asyncio.get_running_loop().time()
        if self._holder() not in ("", self._candidacy.identity):
            self._free_at += lease.spec.lease_duration_seconds or self._terms.duration.total_seconds()

    async def _until_free_or_news(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout_at(self._free_at):
                await self._news.wait()
        except TimeoutError:
            return

    async def _took(self) -> bool:
        """Take the lease if it is free; whatever stands in the way is looked at again."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._free_at:
            return False
        try:
            try:
                await self._write()
            except (Conflict, NotFound):
                self._see(await self._read())
                return False
        except ApiError as problem:
            # The watch may have told of a new holder meanwhile, who keeps it longer.
            self._free_at = max(self._free_at, loop.time() + self._terms.retry.total_seconds())
            self._tell(logging.WARNING, "lease not taken", because=problem)
            return False
        self._tell(logging.INFO, "leading", identity=self._candidacy.identity)
        return True

    async def _keep(self) -> None:
        """Renew for ever; raises `LeaseLost` when that has not been possible until the deadline."""
        while True:
            pause = min(self._terms.retry.total_seconds(), self._fence.seconds_open())
            await asyncio.sleep(max(pause, TICK))
            if not self.is_leading:
                raise self._lost()
            try:
                await self._renew()
                self._problem = None
            except ApiError as problem:
                self._problem = problem
                self._tell(logging.WARNING, "lease not renewed", because=problem)

    def _lost(self) -> LeaseLost:
        """Tell why the lease is lost, whoever noticed it first: the keeper, or the work at the fence."""
        if self._lease is not None and self._holder() != self._candidacy.identity:
            return LeaseLost(f"{self._holder() or 'somebody'} took the lease {self._candidacy}")
        limit = self._terms.renew_deadline.total_seconds()
        why = self._problem or "it was not tried, as this process stood still"
        return LeaseLost(f"the lease {self._candidacy} could not be renewed within {limit:g}s: {why}")

    async def _renew(self) -> None:
        try:
            await self._write()
        except (Conflict, NotFound):
            # Edited or deleted by hand, or taken; or it was ourselves, and the answer got lost.
            self._lease = await self._read()
            if self._lease is not None and self._holder() != self._candidacy.identity:
                self._fence.close()
                raise self._lost() from None
            await self._write()

    async def _write(self) -> None:
        """Write down that the lease is ours, provided nobody has written since we last saw it."""
        asked, before = self._uptime(), self._lease
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": self._candidacy.identity,
            "leaseDurationSeconds": math.ceil(self._terms.duration.total_seconds()),
            "renewTime": stamp,
        }
        if self._holder() != self._candidacy.identity:
            transitions = 0 if before is None else (before.spec.lease_transitions or 0) + 1
            spec |= {"acquireTime": stamp, "leaseTransitions": transitions}
        self._lease = await self._store(spec)
        self._fence.open(
            deadline=asked + self._terms.renew_deadline.total_seconds(),
            end=asked + self._terms.duration.total_seconds(),
        )

    async def _read(self) -> Lease | None:
        where = self._candidacy
        try:
            return await self._in_time(self._client.get(LEASES, where.namespace, where.name, into=Lease))
        except NotFound:
            return None

    async def _store(self, spec: dict[str, Any]) -> Lease:
        where = self._candidacy
        if self._lease is not None:
            patch = {"metadata": {"resourceVersion": self._lease.metadata.resource_version}, "spec": spec}
            return await self._in_time(self._client.patch(LEASES, where.namespace, where.name, patch, into=Lease))
        about = {"name": where.name, "namespace": where.namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": about, "spec": spec}
        return await self._in_time(self._client.create(LEASES, where.namespace, body, into=Lease))

    async def _in_time(self, call: Awaitable[Lease]) -> Lease:
        """Wait for half the deadline at most, so that a dead connection leaves time for another try."""
        patience = self._terms.renew_deadline.total_seconds() / 2
        if self.is_leading:
            patience = min(patience, self._fence.seconds_open())
        try:
            async with asyncio.timeout(patience):
                return await call
        except TimeoutError:
            raise Unreachable(f"no answer within {patience:.1f}s") from None

    async def _give_back(self) -> None:
        """Let a rival lead at once; if that cannot be told, it waits for the lease to end."""
        if not self.is_leading:
            return
        try:
            await self._let_go()
            self._tell(logging.INFO, "lease given back")
        except (ApiError, LeaseLost) as problem:
            self._tell(logging.WARNING, "lease not given back", because=problem)
        finally:
            self._fence.close()

    async def _let_go(self) -> None:
        try:
            await self._store({"holderIdentity": ""})
        except Conflict:
            # A renewal that was cut off when the work ended may have been written all the same.
            self._lease = await self._read()
            if self._holder() == self._candidacy.identity:
                await self._store({"holderIdentity": ""})

    def _holder(self) -> str:
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    def _tell(self, level: int, event: str, **fields: object) -> None:
        log.log(
            level, event, extra={"lease": str(self._candidacy), **{name: str(fields[name]) for name in fields}}
        )
