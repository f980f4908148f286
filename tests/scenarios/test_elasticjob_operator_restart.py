"""ElasticJobs when operators die over their plans: nobody is made twice, and nothing is carried out twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from pliant.kube.client import KubeClient
from tests.controllers.elastic import workers
from tests.scenarios.cluster import OperatorProcess, Site, operator, without_operator
from tests.scenarios.elastic import ElasticScene, elastic_scene, master

SIZES = (3, 8, 2, 6)


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    with without_operator(ground) as started:
        yield started


@pytest.fixture
def worker(site: Site) -> Iterator[OperatorProcess]:
    """An operator at work."""
    with operator(site) as process:
        process.start()
        yield process


def _has(scene: ElasticScene, size: int) -> bool:
    return len(scene.members("t")) == size


async def test_plans_are_finished_by_the_next_operator(client: KubeClient, worker: OperatorProcess) -> None:
    async with elastic_scene(client) as (scene, nodes):
        await scene.begin(nodes, "t")
        first = await scene.until_master("t")
        for number, size in enumerate(SIZES):
            await scene.plan(f"t-scaleplan-{number}", "t", **workers(size))
            # Sooner or later within the plan: before it was seen, in the midst of it, or when it was done.
            await asyncio.sleep(0.03 * number)
            worker.kill()
            worker.start()
            await scene.until_done(f"t-scaleplan-{number}")
            await scene.until(partial(_has, scene, size), f"{size} workers")
        assert await scene.until_master("t") == first
        names = {change.name for change in scene.history if "-worker-" in change.name and change.kind == "Pod"}
        assert all(len(scene.made(name)) == 1 for name in names)
        plans = [each.message.parameters["plan"] for each in scene.timeline("t") if each.reason == "Scaling"]
        assert plans == [f"t-scaleplan-{number}" for number in range(4)]
        assert master("t") in scene.pods
