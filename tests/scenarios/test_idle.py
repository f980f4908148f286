"""A cluster in which nothing happens does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES
from tests.scenarios.cluster import OperatorProcess, Site, an_ordinary_user, cluster, operator
from tests.scenarios.host import cpu_ticks, descendants, wake_ups
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.messages import start_problems
from tests.scenarios.scene import PATIENCE, Scene

WINDOW = 3.0
"""Seconds during which nothing may happen: the one wait that nothing can cut short."""
SETTLED = 1.0
"""Seconds without a write after which none is expected any more."""
MOST_TICKS = 3
MOST_WAKE_UPS = 15


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A cluster of one's own, for everything that happens in it counts."""
    with an_ordinary_user() as user, cluster(user, "--no-operator") as started:
        yield started


@pytest.fixture
def worker(site: Site) -> Iterator[OperatorProcess]:
    """An operator at work."""
    with operator(site) as process:
        process.start()
        yield process


async def version(client: KubeClient) -> str:
    """Grows with every write to anything."""
    return (await client.list(NODES)).resource_version


async def test_jobs_that_ended_run_or_cannot_start_cost_nothing(
    scene: Scene, site: Site, worker: OperatorProcess
) -> None:
    nowhere = group(FOREVER)
    nowhere["template"]["spec"]["nodeSelector"] = {"no-such-label": "true"}
    await scene.submit(job("ended", {"worker": group("exit 0")}, cleanPodPolicy="None"))
    await scene.submit(job("waits", {"worker": nowhere}))
    await scene.submit(job("unclear", {"worker": group("exit 0")}, restartingExitCode="x"))
    moves = group(FOREVER, 2, minReplicas=1, maxReplicas=2, edlPolicy="Auto")
    moves["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    await scene.submit(job("moves", {"worker": moves}))
    await scene.submit(job("runs", {"worker": group(FOREVER, 2), "ps": group(FOREVER, completePolicy="None")}))
    await scene.until_phase("ended", "Succeed")
    await scene.until(lambda: scene.status("runs").get("ready") == "3/3", "a running job told as such")
    await scene.until(
        lambda: "Unschedulable" in start_problems(scene.message("waits")).get("worker-0", ""), "a waiting job told so"
    )
    await scene.until(lambda: "InvalidSpec" in scene.events("unclear"), "an unclear job told so")
    await scene.until(lambda: _thought(scene) == "has 2, its maximum", "a size found right")
    await _come_to_rest(scene.client)
    assert site.process is not None
    ours = [site.process, *descendants(site.process), worker.pid]

    before = {process: (cpu_ticks(process), wake_ups(process)) for process in ours}
    written = await version(scene.client)
    await asyncio.sleep(WINDOW)
    assert await version(scene.client) == written
    used = {
        process: (cpu_ticks(process) - ticks, wake_ups(process) - wakes) for process, (ticks, wakes) in before.items()
    }
    assert all(ticks <= MOST_TICKS and wakes <= MOST_WAKE_UPS for ticks, wakes in used.values()), used

    await scene.edit("runs", {"metadata": {"labels": {"a": "write"}}})
    assert await version(scene.client) != written


async def _come_to_rest(client: KubeClient) -> None:
    """Wait until the last events of what happened before are written."""
    async with asyncio.timeout(PATIENCE):
        written = ""
        while (latest := await version(client)) != written:
            written = latest
            await asyncio.sleep(SETTLED)


def _thought(scene: Scene) -> str:
    """What the autoscaler thinks of the one group that it may set."""
    told = scene.status("moves").get("scaling") or [{}]
    return str(told[0].get("recommendationMessage", ""))
