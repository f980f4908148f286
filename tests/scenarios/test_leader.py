"""Operators that agree on one of them, through death, standstill and what a dead one had still on its way."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from pliant.kube.resources import LEASES
from tests.depth import sample
from tests.scenarios.cluster import Site, without_operator
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.scene import PATIENCE, Scene
from tests.scenarios.tap import Arrival, Tap, tapped

LEASE = 9.0
"""Seconds, and so many that a busy machine is not late by a tenth of it."""
BUSY = 3.0
"""What a very busy one may add to a take-over; on virtual time it is within 1.1 x the lease."""
DEADLINE = 6.0
TRANSIT = 1.0
"""Seconds that a request may take from its sender to the tap on a busy machine."""


class Candidate:
    """An operator that competes, and everything it ever asked for."""

    def __init__(self, process: subprocess.Popen[str], tap: Tap, log: Path) -> None:
        self.process = process
        self.tap = tap
        self.log = log

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.to_thread(self.process.wait)

    async def until(self, wanted: Callable[[Arrival], bool]) -> None:
        """Wait until it has asked for such a thing."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.tap.until(wanted)
        except TimeoutError:
            raise AssertionError(f"it never came to that:\n{self.log.read_text()}") from None

    @property
    def writes(self) -> list[Arrival]:
        """All it asked to be changed."""
        return [seen for seen in self.tap.arrivals if seen.method != "GET" and "/leases" not in seen.path]

    @property
    def claims(self) -> list[float]:
        """When it asked for the lease, first or again."""
        return [seen.at for seen in self.tap.arrivals if seen.method != "GET" and "/leases" in seen.path]

    @property
    def too_late(self) -> list[Arrival]:
        """All it asked for after the deadline of its last renewal."""
        return [seen for seen in self.tap.arrivals if seen.at > self.claims[-1] + DEADLINE + TRANSIT]


Enter = Callable[[str], Awaitable[Candidate]]


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    with without_operator(ground) as started:
        yield started


@pytest.fixture
async def enter(site: Site, scene: Scene) -> AsyncIterator[Enter]:
    """Starts operators for one namespace, each of which reaches the cluster through a tap of its own."""
    candidates: list[Candidate] = []
    way_in = site.way_into(scene.namespace)
    async with AsyncExitStack() as stack:

        async def entered(name: str) -> Candidate:
            tap, kubeconfig = await stack.enter_async_context(
                tapped(way_in, lambda text: site.user.write(f"{scene.namespace}-{name}", text))
            )
            log = site.user.home / f"{scene.namespace}-{name}.log"
            words = ["--kubeconfig", kubeconfig, "--namespace", scene.namespace]
            with log.open("w") as output:
                process = site.user.start(
                    "operator", *words, "--leader-elect", "--lease-duration", f"{LEASE}s", stderr=output
                )
            candidates.append(Candidate(process, tap, log))
            return candidates[-1]

        try:
            yield entered
        finally:
            for candidate in candidates:
                candidate.process.kill()
                candidate.process.communicate()
    for candidate in candidates:
        assert "Traceback" not in candidate.log.read_text(), candidate.log.read_text()


async def leader_other_than(scene: Scene, old: str = "") -> str:
    """Who leads next."""
    listing = await scene.client.list(LEASES, scene.namespace)
    for lease in listing.items:
        if (holder := lease["spec"].get("holderIdentity") or "") not in (old, ""):
            return str(holder)
    return (await holders_until_another(scene, old, listing.resource_version))[-1]


async def holders_until_another(scene: Scene, old: str, since: str) -> list[str]:
    """Every holder of the lease from a version on, to the first other one."""
    holders: list[str] = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(scene.client.watch(LEASES, scene.namespace, resource_version=since)) as changes,
    ):
        async for change in changes:
            if change.object is not None:
                holders.append(change.object["spec"].get("holderIdentity") or "")
                if holders[-1] not in (old, ""):
                    return holders
    raise AssertionError("the watch ended")


def follows_the_lease(seen: Arrival) -> bool:
    return "watch=true" in seen.path and "/leases" in seen.path


def creates_a_pod(seen: Arrival) -> bool:
    return seen.method == "POST" and seen.path.partition("?")[0].endswith("/pods")


def tells_a_status(seen: Arrival) -> bool:
    return seen.method == "PATCH" and seen.path.partition("?")[0].endswith("/status")


@pytest.mark.parametrize("straggler", sample((creates_a_pod, tells_a_status), 1, "late writes"))
async def test_a_leader_that_stood_still_asks_for_nothing_and_what_it_had_asked_for_does_no_harm(
    scene: Scene, enter: Enter, straggler: Callable[[Arrival], bool]
) -> None:
    clock = asyncio.get_running_loop().time
    old = await enter("old")
    name = await leader_other_than(scene)
    new = await enter("new")
    await new.until(follows_the_lease)

    held = old.tap.hold(straggler)
    await scene.submit(job("t", {"worker": group(FOREVER, 8)}))
    async with asyncio.timeout(PATIENCE):
        await held.caught.wait()
    old.signal(signal.SIGSTOP)
    stopped = clock()
    await leader_other_than(scene, name)
    assert new.claims[0] - stopped <= 1.1 * LEASE + BUSY
    await scene.until(lambda: scene.status("t").get("ready") == "8/8", "eight of eight ready")

    before = {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}
    held.may_go.set()
    old.signal(signal.SIGCONT)
    assert await old.ended() == 1
    assert f"could not be renewed within {DEADLINE:g}s" in old.log.read_text()
    assert old.too_late == []

    async with asyncio.timeout(PATIENCE):
        assert b" 409 " in await held.answer
    await scene.edit("t", {"spec": {"replicaSpecs": {"worker": {"replicas": 9}}}})
    await scene.until(lambda: scene.status("t").get("ready") == "9/9", "nine of nine ready")
    assert before.items() <= {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}.items()


@pytest.mark.deep
@pytest.mark.parametrize("writes", [1, 7, 20, 50, 90, 130])
async def test_a_leader_stopped_in_the_midst_of_much_work_asks_for_nothing_later(
    scene: Scene, enter: Enter, writes: int
) -> None:
    old = await enter("old")
    name = await leader_other_than(scene)
    await enter("new")
    nowhere = group(FOREVER, 4)
    nowhere["template"]["spec"]["nodeSelector"] = {"there-is": "none"}
    for number in range(20):
        await scene.submit(job(f"t{number}", {"worker": nowhere}))
    await old.until(lambda seen: len(old.writes) >= writes)
    old.signal(signal.SIGSTOP)
    await leader_other_than(scene, name)
    old.signal(signal.SIGCONT)
    assert await old.ended() == 1
    assert old.too_late == []
    await scene.until(lambda: len(scene.pods) == 80, "every pod made")


@pytest.mark.deep  # tests/kube/test_lease.py shows it on virtual time
async def test_a_dead_leader_is_followed_within_its_lease_and_a_tenth(scene: Scene, enter: Enter) -> None:
    old = await enter("old")
    name = await leader_other_than(scene)
    new = await enter("new")
    await new.until(follows_the_lease)
    old.signal(signal.SIGKILL)
    died = asyncio.get_running_loop().time()
    await leader_other_than(scene, name)
    assert DEADLINE <= new.claims[0] - died <= 1.1 * LEASE + BUSY
    await scene.submit(job("t", {"worker": group("exit 0")}))
    await scene.until_phase("t", "Succeed")


async def test_a_leader_that_is_told_to_stop_hands_over_at_once(scene: Scene, enter: Enter) -> None:
    old = await enter("old")
    name = await leader_other_than(scene)
    new = await enter("new")
    await new.until(follows_the_lease)
    before = (await scene.client.list(LEASES, scene.namespace)).resource_version
    old.signal(signal.SIGTERM)
    assert "" in await holders_until_another(scene, name, before), "the lease ran out instead of being given back"
    assert await old.ended() == 0
