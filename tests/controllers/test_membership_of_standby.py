"""What replicas learn from an operator that does not lead, and what that costs the API server."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import pytest

from pliant.controllers.membership import job_objects
from pliant.controllers.membership.server import IDLE_SECONDS
from tests.controllers.replicas import SPACE, departure, job_with_replicas
from tests.faults.rig import JOBS
from tests.virtual_time import on_virtual_time

WATCH = "WATCH aitrainingjobs metadata.name=demo"


@on_virtual_time
async def test_a_standby_gives_the_same_answers_as_the_leader() -> None:
    async with job_with_replicas() as job:
        pod = await job.create_pod(1)
        await job.publish(4, "0,2", {pod["metadata"]["uid"]: departure(1)})
        by_standby = [await job.ask(replica=f"worker-{index}") for index in range(3)]
        async with job.led():
            by_leader = [await job.ask(replica=f"worker-{index}") for index in range(3)]
        assert by_standby == by_leader
        assert by_leader[1].json["checkpoint"]["id"] == 1


@on_virtual_time
async def test_a_standby_watches_one_job_once_while_its_replicas_ask() -> None:
    async with job_with_replicas() as job:
        await job.publish(4, "0-3")
        job.transport.requests.clear()
        waiting = [asyncio.create_task(job.ask("generation=4&wait=50", f"worker-{index}")) for index in range(4)]
        await asyncio.sleep(40)
        assert job.transport.requests == ["GET aitrainingjobs", WATCH]
        await job.publish(5, "0-2")
        assert [answer.json["generation"] for answer in await asyncio.gather(*waiting)] == [5] * 4
        await asyncio.sleep(IDLE_SECONDS + 1)
        assert job.transport.requests[-1] == f"END {WATCH}"
        job.transport.requests.clear()
        await asyncio.sleep(10 * IDLE_SECONDS)
        assert job.transport.requests == []
        assert (await job.ask()).json["generation"] == 5


@on_virtual_time
async def test_a_standby_stores_acknowledgements_once() -> None:
    async with job_with_replicas() as job:
        await job.create_pod(0)
        for number in (0, 2, 1, 2):
            assert (await job.post({"acknowledgedCheckpoint": number})).status is HTTPStatus.ACCEPTED
        assert await job.acknowledged() == "2"
        assert job.transport.requests.count("PATCH pods/demo-worker-0") == 2
        assert (await job.post({"acknowledgedCheckpoint": 1}, "worker-1")).status is HTTPStatus.NOT_FOUND


@on_virtual_time
async def test_a_report_to_a_standby_is_answered_with_the_request() -> None:
    async with job_with_replicas() as job:
        await job.publish(4, "0-3", {"uid": departure(0, request=6)})
        assert (await job.post({"step": 1})).json["checkpoint"]["id"] == 6
        assert (await job.post({"step": 1}, "worker-1")).json == {}


@on_virtual_time
async def test_waiting_replicas_keep_waiting_when_the_operator_becomes_the_leader() -> None:
    async with job_with_replicas() as job:
        await job.publish(4, "0-3")
        waiting = asyncio.create_task(job.ask("generation=4&wait=60"))
        await asyncio.sleep(1)
        async with job.led():
            await asyncio.sleep(1)
            assert f"END {WATCH}" in job.transport.requests
            assert not waiting.done()
            await job.publish(5, "0-3")
            assert (await waiting).json["generation"] == 5


@on_virtual_time
async def test_a_standby_watches_a_limited_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_objects, "MAX_JOB_WATCHES", 0)
    async with job_with_replicas() as job:
        answer = await job.ask("wait=60")
        assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
        assert "does not lead" in answer.text
        assert (await job.post({"step": 1})).status is HTTPStatus.ACCEPTED
        monkeypatch.setattr(job_objects, "MAX_JOB_WATCHES", 1)
        assert (await job.ask()).status is HTTPStatus.OK


@on_virtual_time
async def test_a_job_that_is_not_there_is_not_found() -> None:
    async with job_with_replicas() as job:
        await job.client.delete(JOBS, SPACE, "demo")
        assert (await job.ask("wait=60")).status is HTTPStatus.NOT_FOUND
