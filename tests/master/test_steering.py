"""The master's loop against an operator and an API server, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from pliant.errors import Forbidden, NotFound, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.kube.transport.base import Reply, Request, StreamReply
from pliant.master.brain.timing import BrainTiming
from pliant.master.control.loop import MasterLoop
from pliant.master.control.parsing import parse_elastic_job
from pliant.master.model import JobCompletion
from pliant.master.server.service import MasterService
from tests.controllers.elastic import JOBS, SPACE, Stage, staged, workers
from tests.faults.seam import Mortal
from tests.faults.stand_in_node import FOR_EVER
from tests.virtual_time import VirtualClock, on_virtual_time, passing

MOMENT = timedelta(seconds=1)
A_WHILE = timedelta(seconds=5)


class Line(Mortal):
    """A transport that can be cut, and that may lose answers to plans."""

    is_cut = False
    answers_to_lose = 0
    refusals = 0

    async def send(self, request: Request) -> Reply:
        if self.is_cut:
            raise Unreachable("cut")
        if request.method == "POST" and self.refusals:
            self.refusals -= 1
            raise Forbidden(403, "Forbidden", "not now")
        reply = await super().send(request)
        if request.method == "POST" and self.answers_to_lose:
            self.answers_to_lose -= 1
            raise Unreachable("the answer was lost")
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        if self.is_cut:
            raise Unreachable("cut")
        async with super().stream(request) as reply:
            yield reply


class Master:
    """A master that a test starts and stops."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.line = Line(stage.client._transport)
        self.service: MasterService | None = None
        self.task: asyncio.Task[JobCompletion] | None = None

    async def start(self, *, keeping_memory: bool = True) -> None:
        """Begin to steer the job, as a new process would."""
        job = parse_elastic_job(await self.stage.client.get(JOBS, SPACE, "demo"))
        service = MasterService(job.uid, clock=VirtualClock(), time=asyncio.get_running_loop().time)
        if keeping_memory and self.service is not None:
            service.brain_state = self.service.brain_state
        self.service = service
        helm = MasterLoop(KubeClient(self.line), job, service, VirtualClock(), BrainTiming())
        self.task = asyncio.create_task(helm.run_until_job_ends())

    async def stop(self) -> None:
        """End it, in whatever it is at."""
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task


@asynccontextmanager
async def mastered(
    number: int | None = None, code: int = FOR_EVER, *, fatal: int | None = None, is_sent: bool = False
) -> AsyncIterator[Master]:
    """A job with a master that has begun, and may die at a write; of so many workers, if a number is given."""

    def script(group: str, index: int, attempt: int) -> int:
        return code if group == "worker" else FOR_EVER

    async with staged(script) as stage:
        worker: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "trainer", "image": "train"}]}}}
        worker |= {} if number is None else {"replicas": number}
        await stage.submit(replicaSpecs={"worker": worker})
        await passing(MOMENT)
        master = Master(stage)
        master.line = Line(stage.client._transport, fatal=fatal, is_sent=is_sent)
        await master.start()
        try:
            await passing(A_WHILE)
            yield master
        finally:
            await master.stop()


@on_virtual_time
async def test_a_job_from_nothing_begins_with_one_worker() -> None:
    async with mastered() as master:
        assert await master.stage.workers() == ["0"]
        plan = (await master.stage.plans())["demo-scaleplan-0"]
        assert plan["spec"]["reason"] == "job started: 1 worker with 1 core and 1 GiB"
        assert plan["metadata"]["annotations"]["pliant/sizing-stage"] == "create"
        assert plan["metadata"]["ownerReferences"][0]["kind"] == "ElasticJob"
        assert plan["status"]["phase"] == "Succeeded"


@on_virtual_time
async def test_nothing_is_written_while_nothing_happens() -> None:
    async with mastered(3) as master:
        before = master.line.writes
        await passing(timedelta(minutes=10))
        assert master.line.writes == before


@on_virtual_time
async def test_lost_workers_come_back_by_one_plan_within_a_second() -> None:
    async with mastered(30) as master:
        for number in range(2, 30):
            await master.stage.client.delete(PODS, SPACE, f"demo-edljob-worker-{number}", grace_period_seconds=0)
        await passing(timedelta(seconds=1.5))
        plan = (await master.stage.plans())["demo-scaleplan-1"]
        assert sorted(pod["rankIndex"] for pod in plan["spec"]["createPods"]) == list(range(2, 30))
        await passing(A_WHILE)
        assert len(await master.stage.workers()) == 30
        assert len(await master.stage.plans()) == 2


@on_virtual_time
async def test_a_new_master_takes_over_whoever_is_there_with_or_without_a_memory() -> None:
    for keeping_memory in (True, False):
        async with mastered(4) as master:
            await master.stop()
            before = master.line.writes
            await master.start(keeping_memory=keeping_memory)
            await passing(timedelta(minutes=2))
            assert await master.stage.workers() == ["0", "1", "2", "3"]
            assert master.line.writes == before


@on_virtual_time
async def test_a_master_without_a_memory_learns_from_the_operator_who_is_missing() -> None:
    async with mastered() as master:
        await master.stage.plan("by-hand", **workers(4))
        await passing(A_WHILE)
        await master.stop()
        for number in (1, 3):
            await master.stage.client.delete(PODS, SPACE, f"demo-edljob-worker-{number}", grace_period_seconds=0)
        await master.start(keeping_memory=False)
        await passing(timedelta(seconds=40))
        assert await master.stage.workers() == ["0", "2", "4", "5"]


@pytest.mark.parametrize("keeping_memory", [True, False])
@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize("fatal", [1, 2])
@on_virtual_time
async def test_a_master_cut_off_at_any_write_leaves_nobody_out_and_makes_nobody_twice(
    fatal: int, is_sent: bool, keeping_memory: bool
) -> None:
    async with mastered(3, fatal=fatal, is_sent=is_sent) as master:
        for number in (1, 2):
            with suppress(NotFound):
                await master.stage.client.delete(PODS, SPACE, f"demo-edljob-worker-{number}", grace_period_seconds=0)
        await passing(A_WHILE)
        assert master.line.died.is_set()
        await master.stop()
        master.line = Line(master.stage.client._transport)
        await master.start(keeping_memory=keeping_memory)
        await passing(timedelta(seconds=60))
        pods = [pod for name, pod in (await master.stage.pods()).items() if "-worker-" in name]
        ranks = [pod["metadata"]["labels"]["elasticjob.dlrover/rank-index"] for pod in pods]
        assert sorted(ranks) == ["0", "1", "2"]


@on_virtual_time
async def test_an_api_server_that_is_away_is_waited_for() -> None:
    async with mastered(3) as master:
        master.line.is_cut = True
        await master.stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(timedelta(minutes=10))
        assert master.task is not None
        assert not master.task.done()
        master.line.is_cut = False
        await passing(timedelta(minutes=6))
        assert await master.stage.workers() == ["0", "2", "3"]


@on_virtual_time
async def test_a_plan_whose_answer_was_lost_is_not_sent_again() -> None:
    async with mastered(3) as master:
        master.line.answers_to_lose = 1
        await master.stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(timedelta(seconds=20))
        assert await master.stage.workers() == ["0", "2", "3"]
        assert sorted(await master.stage.plans()) == ["demo-scaleplan-0", "demo-scaleplan-1"]


@on_virtual_time
async def test_a_name_that_is_taken_is_passed_over() -> None:
    async with mastered(2) as master:
        await master.stage.plan("demo-scaleplan-1", "manual", owner="another")
        await master.stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(A_WHILE)
        assert "demo-scaleplan-2" in await master.stage.plans()
        assert await master.stage.workers() == ["0", "2"]


@on_virtual_time
async def test_a_plan_that_is_refused_is_tried_again_later_and_later() -> None:
    async with mastered(2) as master:
        master.line.refusals = 4
        await master.stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(timedelta(seconds=10))
        assert master.line.refusals > 0
        await passing(timedelta(seconds=60))
        assert await master.stage.workers() == ["0", "2"]
        assert len(await master.stage.plans()) == 2


@on_virtual_time
async def test_what_people_ask_for_is_not_undone() -> None:
    async with mastered() as master:
        await master.stage.plan("by-hand", "manual", **workers(4))
        await passing(timedelta(seconds=30))
        assert await master.stage.workers() == ["0", "1", "2", "3"]
        await master.stage.plan("less", "manual", **workers(2))
        await passing(timedelta(minutes=2))
        assert await master.stage.workers() == ["0", "1"]
        await master.stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(A_WHILE)
        assert await master.stage.workers() == ["0", "4"]


@on_virtual_time
async def test_a_job_that_rested_goes_on_with_as_many_workers() -> None:
    async with mastered() as master:
        await master.stage.plan("by-hand", "manual", **workers(3))
        await passing(A_WHILE)
        await master.stage.client.patch(JOBS, SPACE, "demo", {"spec": {"suspend": True}})
        await passing(timedelta(seconds=30))
        assert await master.stage.workers() == []
        await master.stop()
        await master.start()
        await passing(A_WHILE)
        await master.stage.client.patch(JOBS, SPACE, "demo", {"spec": {"suspend": False}})
        await passing(timedelta(seconds=30))
        assert len(await master.stage.workers()) == 3


@on_virtual_time
async def test_the_master_ends_with_its_workers() -> None:
    async with mastered(2, code=0) as master:
        await passing(A_WHILE)
        assert master.task is not None
        end = master.task.result()
        assert end.has_succeeded
        assert end.reason == "worker-0, worker-1 finished"


@on_virtual_time
async def test_a_job_whose_workers_fail_again_and_again_fails() -> None:
    async with mastered(2, code=3) as master:
        await passing(timedelta(minutes=1))
        assert master.task is not None
        end = master.task.result()
        assert not end.has_succeeded
        assert end.reason.endswith("failed with exit code 3 after 3 restarts")
