"""Kinds that a cluster does not have yet: looked for at once, and then ever less often."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

from pliant.controllers.crds import wait_until_served
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.resources import CRDS
from tests.embedded.serving import serving
from tests.faults.rig import JOBS
from tests.virtual_time import on_virtual_time, passing


@on_virtual_time
async def test_a_definition_that_comes_a_moment_later_is_not_waited_for_a_minute() -> None:
    async with serving() as served, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_until_served(served.client, JOBS, lambda: None))
        await passing(timedelta(seconds=0.5))
        await served.client.create(CRDS, None, AITrainingJobFrontend().crd())
        await passing(timedelta(seconds=1))
        assert waiting.done()


@on_virtual_time
async def test_a_kind_that_nobody_installs_is_looked_for_every_minute() -> None:
    looks: list[float] = []
    async with serving() as served, asyncio.TaskGroup() as tasks:
        clock = asyncio.get_running_loop().time
        waiting = tasks.create_task(wait_until_served(served.client, JOBS, lambda: looks.append(clock())))
        await passing(timedelta(hours=1))
        waiting.cancel()
    gaps = [round(after - before) for before, after in pairwise(looks)]
    assert gaps[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(gaps[7:]) == {60}
