"""An operator at work: a replica that leaves is asked, acknowledges, and is deleted only then."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from pliant.controllers.operator import Operator
from pliant.kube.resources import NODES, PODS
from tests.controllers.replicas import SPACE, Job, job_with_replicas
from tests.faults.rig import JOBS
from tests.faults.stand_in_node import FOR_EVER, StandInNodes
from tests.virtual_time import VirtualClock, on_virtual_time

ELASTIC: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Manual"}


async def run_job(job: Job) -> list[asyncio.Task[Any]]:
    """Run nodes and an operator until all replicas run; return their tasks."""
    nodes = StandInNodes(job.client, lambda group, index, attempt: FOR_EVER)
    await nodes.register()
    operator = Operator(job.client, VirtualClock(), key_secret=b"x", progress_receiver=job.desk)
    tasks = [asyncio.create_task(each) for each in (nodes.run(), operator.run())]
    await asyncio.sleep(5)
    return tasks


async def stop(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def pods(job: Job) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in (await job.client.list(PODS, SPACE)).items)


@on_virtual_time
async def test_a_replica_that_leaves_is_deleted_when_it_has_saved_its_state() -> None:
    async with job_with_replicas(3, **ELASTIC) as job:
        tasks = await run_job(job)
        first = (await job.ask("generation=0&wait=60", "worker-2")).json
        assert [member["name"] for member in first["members"]] == ["worker-0", "worker-1", "worker-2"]
        for index in range(3):
            assert (await job.post({"acknowledgedCheckpoint": 0}, f"worker-{index}")).status is HTTPStatus.ACCEPTED
        known = f"generation={first['generation']}&checkpoint=0&wait=60"
        waiting = [asyncio.create_task(job.ask(known, f"worker-{index}")) for index in range(3)]
        await asyncio.sleep(1)
        await job.client.patch(JOBS, SPACE, "demo", {"spec": {"elastic": {"replicas": 2}}})
        answers = [(await task).json for task in waiting]
        assert [answer["rank"] for answer in answers] == [0, 1, None]
        assert [answer["checkpoint"] is not None for answer in answers] == [False, False, True]
        await asyncio.sleep(10)
        assert len(await pods(job)) == 3
        request = answers[2]["checkpoint"]["id"]
        assert (await job.post({"acknowledgedCheckpoint": request}, "worker-2")).json == {}
        await asyncio.sleep(2)
        assert await pods(job) == ["demo-worker-0", "demo-worker-1"]
        await stop(tasks)


@on_virtual_time
async def test_a_replica_on_a_cordoned_node_is_asked_and_stays() -> None:
    async with job_with_replicas(3, **ELASTIC) as job:
        tasks = await run_job(job)
        for index in range(3):
            await job.post({"acknowledgedCheckpoint": 0}, f"worker-{index}")
        found = await job.client.get(PODS, SPACE, "demo-worker-1")
        await job.client.patch(NODES, None, found["spec"]["nodeName"], {"spec": {"unschedulable": True}})
        await asyncio.sleep(2)
        requests = [(await job.ask(replica=f"worker-{index}")).json["checkpoint"] for index in range(3)]
        assert [request and request["reason"] for request in requests] == [None, "NodeDraining", None]
        await asyncio.sleep(60)
        assert len(await pods(job)) == 3
        await stop(tasks)
