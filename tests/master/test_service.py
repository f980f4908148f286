"""What members are told over HTTP when their job changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from pliant.master.model import MemberKey, MemberStatus
from pliant.master.server.service import MasterService, ServiceTiming
from pliant.model.job_keys import KeyPurpose
from tests.master.people import KEYS, node, running, with_key

WAITS = ServiceTiming(pending_wait=0.2, join_wait=0.5, settle_time=0.1, throughput_window=0.2, heartbeat_interval=0.1)


class Caller:
    """Speaks for any member."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.status = 0

    async def post(self, path: str, member: str = "", **body: Any) -> Any:
        json, headers = {**body, **({"member": member} if member else {})}, with_key(KeyPurpose.MASTER)
        async with self._session.post(path, json=json, headers=headers) as reply:
            self.status = reply.status
            return await reply.json()

    async def get(self, path: str) -> Any:
        async with self._session.get(path, headers=with_key(KeyPurpose.MEMBERSHIP)) as reply:
            self.status = reply.status
            return await reply.json() if reply.content_type == "application/json" else await reply.text()


@asynccontextmanager
async def serving(service: MasterService) -> AsyncIterator[Caller]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(service.serve_until_cancelled(KEYS, "127.0.0.1", 0, port.set_result))
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{await port}", connector=connector) as session:
            async with asyncio.timeout(15):  # nobody is let go only because time is up
                yield Caller(session)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until_waiting(count: int, service: MasterService) -> None:
    """Return once so many wait for members, shards or rounds."""
    bells = (service.members_notifier, service.shards_notifier, service.rendezvous_notifier, service.ps_notifier)
    async with asyncio.timeout(14):
        while sum(len(bell._waiting) for bell in bells) < count:  # noqa: ASYNC110 - a bell does not say who waits
            await asyncio.sleep(0.01)


async def test_a_shard_of_a_lost_worker_goes_at_once_to_one_who_waits() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(2))
    async with serving(service) as caller:
        await caller.post("/v1/datasets", name="train", size=10, shard_size=5)
        await caller.post("/v1/datasets", name="other", size=10, shard_size=5)
        for _ in range(2):
            await caller.post("/v1/datasets/train/next", "worker-0", holding=[0])
        waiting = asyncio.create_task(caller.post("/v1/datasets/train/next", "worker-1"))
        await until_waiting(1, service)
        service.set_members((node("worker-0", MemberStatus.FAILED), node("worker-1")))
        assert (await waiting)["shard"] == {"position": 0, "epoch": 0, "start": 0, "end": 5}
        assert service.dispatcher.unassigned_shard_count == 3
        assert not service.dispatcher.are_datasets_done


async def test_who_waits_for_a_shard_learns_when_all_are_done() -> None:
    service = MasterService("uid-1", timing=WAITS)
    async with serving(service) as caller:
        await caller.post("/v1/datasets", name="train", size=5, shard_size=5)
        await caller.post("/v1/datasets/train/next", "worker-0")
        waiting = asyncio.create_task(caller.post("/v1/datasets/train/next", "worker-1"))
        await until_waiting(1, service)
        await caller.post("/v1/datasets/train/report", "worker-0", done=[0])
        assert await waiting == {"shard": None, "completed": True}
        assert service.dispatcher.are_datasets_done


async def test_hundreds_of_members_who_wait_learn_of_a_change() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(5))
    async with serving(service) as caller:
        asked = [caller.get("/v1/membership?generation=1") for _ in range(500)]
        waiting = [asyncio.create_task(each) for each in asked]
        await until_waiting(500, service)
        service.set_members(running(4))
        answers = await asyncio.gather(*waiting)
    assert {answer["generation"] for answer in answers} == {2}
    assert [member["rank"] for member in answers[0]["members"]] == [0, 1, 2, 3]


async def test_members_learn_of_other_parameter_servers_and_say_when_they_use_them() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(1))
    service.set_parameter_servers(1, ("ps-0:2222",))
    async with serving(service) as caller:
        waiting = asyncio.create_task(caller.get("/v1/ps?version=1"))
        await until_waiting(1, service)
        service.set_parameter_servers(2, ("ps-0:2222", "ps-1:2222"))
        assert await waiting == {"version": 2, "hosts": ["ps-0:2222", "ps-1:2222"]}
        assert (await caller.post("/v1/heartbeat", "worker-0", ps_version=1))["ps_version"] == 2
        assert service.heartbeats()[MemberKey("worker", 0)].ps_version == 1
        await caller.post("/v1/heartbeat", "worker-0", ps_version=2)
        assert service.heartbeats()[MemberKey("worker", 0)].ps_version == 2


async def test_a_beat_is_answered_with_the_end_of_its_round() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(2))
    async with serving(service) as caller:
        joins = [caller.post("/v1/rendezvous", f"worker-{number}", address=f"10.0.0.{number}") for number in (1, 0)]
        places = await asyncio.gather(*joins)
        assert [(place["rank"], place["leader"]) for place in places] == [(1, "10.0.0.0"), (0, "10.0.0.0")]
        answer = await caller.post("/v1/heartbeat", "worker-0", round=1)
        assert (answer["restart"], answer["round"]) == (False, 1)
        service.set_members(running(1))
        answer = await caller.post("/v1/heartbeat", "worker-0", round=1)
        assert (answer["restart"], answer["round"]) == (True, 2)
        assert (await caller.post("/v1/rendezvous", "worker-0"))["world_size"] == 1


async def test_a_worker_that_hung_up_is_not_waited_for() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(3))
    async with serving(service) as caller:
        waiting = asyncio.create_task(caller.post("/v1/rendezvous", "worker-0"))
        await until_waiting(1, service)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        first, second = await asyncio.gather(*(caller.post("/v1/rendezvous", f"worker-{number}") for number in (1, 2)))
    assert (first["world_size"], first["rank"], second["rank"]) == (2, 0, 1)


async def test_who_asks_again_with_a_ticket_finds_the_round_that_closed_meanwhile() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(2))
    async with serving(service) as caller:
        ticket = (await caller.post("/v1/rendezvous", "worker-0", wait=0))["ticket"]
        await caller.post("/v1/rendezvous", "worker-1")
        found = await caller.post("/v1/rendezvous", "worker-0", ticket=ticket)
    assert (found["round"], found["rank"], found["world_size"]) == (1, 0, 2)


async def test_speeds_are_measured_from_beats() -> None:
    service = MasterService("uid-1", timing=replace(WAITS, settle_time=0.1, throughput_window=0.3))
    service.set_members(running(2))
    async with serving(service) as caller:
        samples = 0
        while not service.speed_by_worker_count():
            samples += 10
            for number in range(2):
                await caller.post("/v1/heartbeat", f"worker-{number}", samples=samples, step=samples, cpu=0.5)
            await asyncio.sleep(0.02)
        assert list(service.speed_by_worker_count()) == [2]
        assert service.heartbeats()[MemberKey("worker", 1)].cpu == 0.5
        text = await caller.get("/metrics")
    assert 'pliant_master_speed{workers="2"} ' in text
    assert 'pliant_master_members{type="worker",status="Running"} 2\n' in text


@pytest.mark.parametrize(
    ("path", "body", "status", "problem"),
    [
        ("/v1/datasets", {"name": "x", "size": "many", "shard_size": 1}, 400, "size: Expected `int`, got `str`"),
        ("/v1/datasets/x/next", {"member": "worker-0"}, 404, "dataset 'x' not found: register it first"),
        ("/v1/heartbeat", {"member": "worker"}, 400, "member: 'worker': must be type and id, such as `worker-3`"),
        ("/v1/heartbeat", {}, 400, "body: Object missing required field `member`"),
        ("/v1/heartbeat", {"member": "worker-0", "memory": -1}, 400, "memory: Expected `int` >= 0"),
        ("/v1/rendezvous", {"member": "ps-0"}, 400, "member: ps-0: only chiefs and workers can join"),
        ("/v2/beat", {}, 404, "POST /v2/beat: Not Found"),
    ],
)
async def test_mistakes_are_answered_with_the_field(path: str, body: Any, status: int, problem: str) -> None:
    async with serving(MasterService("uid-1")) as caller:
        answer = await caller.post(path, **body)
    assert caller.status == status
    assert answer["error"].startswith(problem)


async def test_numbers_that_are_none_are_refused() -> None:
    async with serving(MasterService("uid-1")) as caller:
        assert await caller.get("/v1/membership?generation=nan") == {"error": "generation: 'nan' is not a number"}
        assert await caller.get("/v1/ps?wait=long") == {"error": "wait: 'long' is not a number"}
        assert await caller.get("/healthz") == "ok\n"
