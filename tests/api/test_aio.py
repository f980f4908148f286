"""The asynchronous API."""

from __future__ import annotations

import asyncio

import pytest

from pliant import PhaseUpdate, PliantError, aio
from pliant.cli.cluster.waiting import ClusterLost
from tests.api.jobs import STEADY, TRAINING, make_job


async def test_two_clusters_run_jobs_of_one_name_at_the_same_time() -> None:
    async with aio.cluster(nodes=2) as first, aio.cluster() as second:
        jobs = await asyncio.gather(
            *(
                each.run(make_job("same", f"{TRAINING}; echo {number}"), quiet=True)
                for number, each in enumerate((first, second))
            )
        )
        assert [(await job.logs(rank=0)).splitlines()[-1] for job in jobs] == ["0", "1"]
        steady = await second.submit(make_job("steady", STEADY))
        async for update in steady.follow():
            if isinstance(update, PhaseUpdate) and update.phase == "Running":
                break
        waiting = asyncio.create_task(steady.wait())
        await asyncio.sleep(0)
    with pytest.raises(ClusterLost, match="has stopped"):
        await waiting
    with pytest.raises(PliantError, match="has stopped"):
        await steady.why()
    assert steady.phase == "Running"
