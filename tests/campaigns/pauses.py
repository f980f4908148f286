"""The leader of two operators is paused past its lease, under load: what it writes afterwards takes no effect."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import subprocess
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field

from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import LEASES
from pliant.runtime.clock import SystemClock
from tests.campaigns.recording_proxy import RecordedWrite, RecordingProxy, recording_proxy
from tests.scenarios.cluster import Site, without_operator
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.scene import JOBS, Scene, a_scene

PATIENCE = 90.0
JOBS_AT_A_TIME = 8
MAX_TAKE_OVER_RATIO = 1.1


@dataclass
class PauseReport:
    lease: float
    rounds: int = 0
    writes: int = 0
    """Writes of leaders before they were paused."""
    refused_late: int = 0
    """Writes of deposed leaders that arrived, and that the server refused."""
    effective_late: list[str] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.effective_late and max(self.ratios, default=0.0) <= MAX_TAKE_OVER_RATIO

    def __str__(self) -> str:
        ordered = sorted(self.ratios)
        shares = {"min": 0.0, "median": 0.5, "p90": 0.9, "max": 1.0}
        spread = ", ".join(f"{name} {ordered[int(share * (len(ordered) - 1))]:.3f}" for name, share in shares.items())
        return (
            f"{self.rounds} pauses of a leader ({self.writes} writes before): {len(self.effective_late)} writes of a "
            f"deposed leader took effect, {self.refused_late} were refused; take-over as a share of the lease of "
            f"{self.lease:g} s: {spread}, mean {statistics.mean(ordered):.3f}"
            + "".join(f"\n  {each}" for each in self.effective_late)
        )


@dataclass
class _Candidate:
    process: subprocess.Popen[str]
    proxy: RecordingProxy
    stack: AsyncExitStack

    async def end(self) -> None:
        self.process.kill()
        await asyncio.to_thread(self.process.communicate)
        await self.stack.aclose()


@dataclass(frozen=True)
class _TakeOver:
    holder: str
    version: int
    """The version of the lease when it was taken: every later write of the old leader is late."""
    seen_at: float


class _Campaign:
    def __init__(self, site: Site, scene: Scene, lease: float, rng: random.Random) -> None:
        self._site, self._scene, self._lease, self._rng = site, scene, lease, rng
        self._way_in = site.way_into(scene.namespace)
        self._started = 0
        self.report = PauseReport(lease)

    async def run(self, count: int) -> None:
        load = asyncio.create_task(self._load())
        leader = await self._enter()
        holder = (await self._next_holder("")).holder
        standby = await self._enter()
        try:
            for _ in range(count):
                holder = await self._pause(leader, standby, holder)
                await leader.end()
                leader, standby = standby, await self._enter()
        finally:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load
            await leader.end()
            await standby.end()

    async def _pause(self, leader: _Candidate, standby: _Candidate, holder: str) -> str:
        """Stop the leader, wait for the other one to lead, let the first go on; return who leads now."""
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(PATIENCE):
            await standby.proxy.follows_lease.wait()
        await asyncio.sleep(self._rng.uniform(0.2, 1.5))
        leader.process.send_signal(signal.SIGSTOP)
        stopped, before = clock(), len(leader.proxy.writes)
        taken = await self._next_holder(holder)
        await asyncio.sleep(self._rng.uniform(0, 1))
        leader.process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE):
            code = await asyncio.to_thread(leader.process.wait)
        assert code == 1, f"a leader that lost its lease ended with {code}"
        claimed = [each.at for each in standby.proxy.writes if each.is_of_lease and each.status < 300]
        late = [each for each in leader.proxy.writes if _is_late(each, taken)]
        report = self.report
        report.rounds += 1
        report.writes += before
        report.ratios.append((claimed[0] - stopped) / self._lease)
        report.refused_late += sum(each.status >= 300 for each in late)
        report.effective_late += [
            f"{each.method} {each.path}: version {each.version} after {taken.version}"
            for each in late
            if each.status < 300
        ]
        return taken.holder

    async def _enter(self) -> _Candidate:
        self._started += 1
        name, stack = f"{self._scene.namespace}-{self._started}", AsyncExitStack()
        proxy, kubeconfig = await stack.enter_async_context(recording_proxy(self._way_in))
        path = self._site.user.write(name, kubeconfig)
        lease = ("--leader-elect", "--lease-duration", f"{self._lease}s")
        with (self._site.user.home / f"{name}.log").open("w") as log:
            words = ("operator", "--kubeconfig", path, "--namespace", self._scene.namespace, *lease)
            process = self._site.user.start(*words, stdout=log, stderr=log)
        return _Candidate(process, proxy, stack)

    async def _next_holder(self, old: str) -> _TakeOver:
        client, namespace = self._scene.client, self._scene.namespace
        listing = await client.list(LEASES, namespace)
        async with (
            asyncio.timeout(PATIENCE),
            aclosing(client.watch(LEASES, namespace, resource_version=listing.resource_version)) as changes,
        ):
            for lease in listing.items:
                if (lease["spec"].get("holderIdentity") or "") not in (old, ""):
                    return self._take_over(lease)
            async for change in changes:
                taken = change.object
                if taken is not None and (taken["spec"].get("holderIdentity") or "") not in (old, ""):
                    return self._take_over(taken)
        raise AssertionError("the watch ended")

    def _take_over(self, lease: dict[str, dict[str, str]]) -> _TakeOver:
        version = int(lease["metadata"]["resourceVersion"])
        return _TakeOver(lease["spec"]["holderIdentity"], version, asyncio.get_running_loop().time())

    async def _load(self) -> None:
        """Create and delete jobs without pause; their pods fit no node."""
        client, namespace, number = self._scene.client, self._scene.namespace, 0
        worker = group(FOREVER, 4)
        worker["template"]["spec"]["nodeSelector"] = {"there-is": "none"}
        while True:
            with suppress(ApiError):
                await client.create(JOBS, namespace, job(f"t{number}", {"worker": worker}))
                if number >= JOBS_AT_A_TIME:
                    await client.delete(JOBS, namespace, f"t{number - JOBS_AT_A_TIME}")
            number += 1
            await asyncio.sleep(0.25)


def _is_late(write: RecordedWrite, taken: _TakeOver) -> bool:
    return write.version > taken.version if write.version is not None else write.at > taken.seen_at


def run_pause_campaign(ground: str, count: int, lease: float, seed: int) -> PauseReport:
    async def run(site: Site) -> PauseReport:
        transport = create_transport(site.kubeconfig, None, SystemClock().now)
        try:
            async with a_scene(KubeClient(transport)) as scene:
                campaign = _Campaign(site, scene, lease, random.Random(seed))
                await campaign.run(count)
                return campaign.report
        finally:
            await transport.aclose()

    with without_operator(ground) as site:
        return asyncio.run(run(site))
