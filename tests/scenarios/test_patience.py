"""An operator that was not told to fail jobs whose containers cannot be created waits for somebody to help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.cluster import Site, an_ordinary_user, cluster
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.messages import start_problems
from tests.scenarios.nodes import Runs, Stuck, paper_nodes
from tests.scenarios.scene import Scene


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A cluster of one's own, for what its operator was told."""
    patience = ("--creating-duration-period=1s", "--creating-restart-period=2s")
    with an_ordinary_user() as user, cluster(user, *patience) as started:
        yield started


async def test_a_job_waits_for_its_containers_when_nothing_more_is_tried(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = lambda pod: Stuck("ErrImagePull", "who knows")
        worker = nodes.place(group(FOREVER))
        await scene.submit(job("t", {"worker": worker}))
        # It outlives a job that may wait twice as long as pods are made anew.
        await scene.submit(job("measure", {"worker": worker}, startLimit=5))
        await scene.until_phase("measure", "Timeout")
        assert scene.phase("t") == "Restarting"
        assert start_problems(scene.message("t")) == {"worker-0": "ErrImagePull: who knows"}
        tries = scene.attempts("t-worker-0")
        assert len(tries) > 1
        nodes.order("t-worker-0", Runs())
        await scene.until_phase("t", "Running")
        assert scene.attempts("t-worker-0") == tries
