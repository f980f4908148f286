"""What a master leaves to the next one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from pliant.embedded.catalog.resources import Catalog
from pliant.embedded.server.api import ApiServer
from pliant.embedded.server.direct import DirectTransport
from pliant.embedded.storage.store import Store
from pliant.errors import ApiError, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.kube.transport import Transport
from pliant.master.memory import LARGEST, HandyShelf, Superseded
from pliant.master.model import NodeKey
from pliant.master.service import Service, Waits
from pliant.master.shards import DataSpec, Holder
from pliant.master.shelf import ConfigMapShelf, shelf_name
from pliant.master.wire import BeatReport
from tests.faults.seam import FAULTS, Faulty
from tests.master.people import running
from tests.virtual_time import VirtualClock, on_virtual_time

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "demo"}
"""Whatever is there may own something; what nobody owns any more would be cleared away."""
WORKER = Holder(NodeKey("worker", 0), 1)


@asynccontextmanager
async def api() -> AsyncIterator[DirectTransport]:
    store = Store.in_memory()
    async with ApiServer.started(store, Catalog.standard(), VirtualClock(), chance=random.Random(0)) as server:
        transport = DirectTransport(server)
        await new_job(transport)
        yield transport


async def new_job(transport: Transport) -> None:
    client = KubeClient(transport)
    with suppress(NotFound):
        await client.delete(CONFIG_MAPS, "default", "demo")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}}
    OWNER["uid"] = (await client.create(CONFIG_MAPS, "default", body))["metadata"]["uid"]


def shelf(transport: Transport, identity: str = "first") -> ConfigMapShelf:
    return ConfigMapShelf(KubeClient(transport), "default", dict(OWNER), identity)


@on_virtual_time
async def test_what_was_saved_is_there_for_the_next_master_and_belongs_to_the_job() -> None:
    async with api() as transport:
        first = shelf(transport)
        assert await first.load() is None
        await first.save(b"1")
        await first.save(b"2")
        assert await shelf(transport, "second").load() == b"2"
        found = await KubeClient(transport).get(CONFIG_MAPS, "default", shelf_name("demo"))
        assert found["metadata"]["ownerReferences"] == [OWNER]


@on_virtual_time
async def test_a_master_that_was_replaced_cannot_write_any_more() -> None:
    async with api() as transport:
        first = Service("uid-1", shelf=shelf(transport))
        first.brain["stage"] = "create"
        first.remember()
        await first.keeper.save()
        second = Service("uid-1", shelf=shelf(transport, "second"))
        assert await second.load()
        first.remember()
        with pytest.raises(Superseded, match="second writes elasticjob-demo-dlrover-master-state now"):
            await first.run("127.0.0.1", 0)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", [1, 2])
@on_virtual_time
async def test_a_write_whose_fate_is_unknown_does_not_cut_off_its_own_master(fault: str, at: int) -> None:
    async with api() as transport:
        kept = shelf(Faulty(transport, at=at, fault=fault))
        for value in (b"1", b"2", b"3"):
            try:
                await kept.save(value)
            except ApiError:
                await kept.save(value)
        assert await shelf(transport).load() == b"3"


@on_virtual_time
async def test_the_memory_of_an_earlier_job_of_that_name_is_left_aside() -> None:
    async with api() as transport:
        await shelf(transport).save(b"old")
        await new_job(transport)
        fresh = shelf(transport, "new")
        assert await fresh.load() is None
        await fresh.save(b"new")
        assert await shelf(transport, "next").load() == b"new"


@on_virtual_time
async def test_a_new_master_goes_on_where_the_last_one_was() -> None:
    kept = HandyShelf()
    first = Service("uid-1", shelf=kept)
    first.set_members(running(2))
    first.register(DataSpec(name="train", size=100, shard_size=10))
    first.take("train", WORKER, [])
    first.report("train", WORKER, [0], [])
    first.take("train", WORKER, [])
    first.set_ps(3, ("ps-0:2222",))
    first.brain["stage"] = "running"
    first.remember()
    await first.keeper.save()
    second = Service("uid-1", shelf=kept)
    assert await second.load()
    second.set_members(running(2))
    assert second.membership.generation == 1
    data = second.work.find("train")
    assert (data.done, data.held, second.work_left()) == (1, 1, 8)
    assert (second.ps.version, second.ps.hosts) == (3, ("ps-0:2222",))
    assert second.brain == {"stage": "running"}
    # The worker at it dies later, or died meanwhile: the new master knows whose it was.
    second.set_members(running(2)[1:])
    assert second.work_left() == 9
    third = Service("uid-1", shelf=kept)
    assert await third.load()
    third.set_members(running(2)[1:])
    assert third.work_left() == 9


@on_virtual_time
async def test_shards_that_change_hands_are_saved_every_three_seconds_and_all_else_at_once() -> None:
    kept = HandyShelf()
    service = Service("uid-1", shelf=kept)
    task = asyncio.create_task(service.keeper.run())
    service.register(DataSpec(name="train", size=10**6, shard_size=1))
    await asyncio.sleep(0.1)
    assert kept.saves == 1
    for position in range(300):
        service.take("train", WORKER, [])
        service.report("train", WORKER, [position], [])
        await asyncio.sleep(0.1)
    assert 9 <= kept.saves <= 11
    saves = kept.saves
    for version in range(1, 101):
        service.set_ps(version, ())
        await asyncio.sleep(0.1)
    assert 9 <= kept.saves - saves <= 11
    saves = kept.saves
    await asyncio.sleep(1000)
    assert kept.saves <= saves + 1
    task.cancel()


@on_virtual_time
async def test_saving_stops_even_when_there_is_news_in_the_same_moment() -> None:
    service = Service("uid-1")
    task = asyncio.create_task(service.keeper.run())
    service.keeper.remember(soon=False)
    await asyncio.sleep(0.1)
    service.remember()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@on_virtual_time
async def test_a_new_master_hands_out_nothing_before_it_knows_what_was_done_meanwhile() -> None:
    kept, other = HandyShelf(), Holder(NodeKey("worker", 1), 1)
    first = Service("uid-1", shelf=kept)
    first.register(DataSpec(name="train", size=100, shard_size=10))
    first.take("train", WORKER, [])
    await first.keeper.save()
    first.report("train", WORKER, [0], [])
    first.take("train", WORKER, [])
    second, now = Service("uid-1", shelf=kept, time=lambda: now), 100.0
    await second.load()
    second.tick()
    assert second.take("train", other, []) is None
    second.beat(BeatReport(member="worker-0", process=1, done={"train": [0]}, holding={"train": [1]}))
    shard = second.take("train", other, [])
    assert shard is not None
    assert shard.position == 2
    third, now = Service("uid-1", shelf=kept, time=lambda: now), 100.0
    await third.load()
    third.tick()
    assert third.take("train", other, []) is None
    now = 109.0
    third.tick()
    shard = third.take("train", other, [])
    assert shard is not None


@on_virtual_time
async def test_a_thousand_workers_fit_into_the_memory_many_times() -> None:
    kept = HandyShelf()
    service = Service("uid-1", shelf=kept, waits=Waits(settle=0, window=0))
    service.set_members(running(1000))
    service.register(DataSpec(name="train", size=10**9, shard_size=10))
    for number in range(1000):
        holder = Holder(NodeKey("worker", number), 12345)
        service.take("train", holder, [])
        service.join(holder, f"10.1.{number // 250}.{number % 250}")
        service.beat(BeatReport(member=f"worker-{number}", process=12345, step=1, samples=10.0, memory=10**9))
    assert service.rounds.number == 1
    await service.keeper.save()
    assert kept.value is not None
    assert len(kept.value) < LARGEST / 4


async def test_what_is_too_large_is_not_saved_and_said(caplog: pytest.LogCaptureFixture) -> None:
    kept = HandyShelf()
    service = Service("uid-1", shelf=kept)
    service.brain["much"] = "x" * LARGEST
    service.remember()
    await service.keeper.save()
    assert kept.value is None
    assert "memory too large to be saved" in caplog.text
