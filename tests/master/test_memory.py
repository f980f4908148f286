"""What a master leaves to the next one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import ApiError, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.kube.transport.base import Transport
from pliant.master.checkpoint import (
    MAX_STATE_BYTES,
    ConfigMapMasterStateStore,
    InMemoryMasterStateStore,
    MasterSuperseded,
    state_configmap_name,
)
from pliant.master.data.shards import DatasetSpec, MemberProcess
from pliant.master.model import MemberKey
from pliant.master.server.messages import HeartbeatRequest
from pliant.master.server.service import MasterService, ServiceTiming
from tests.faults.seam import FAULTS, Faulty
from tests.master.people import KEYS, running
from tests.virtual_time import VirtualClock, on_virtual_time

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "demo"}
"""Whatever is there may own something; what nobody owns any more would be cleared away."""
WORKER = MemberProcess(MemberKey("worker", 0), 1)


@asynccontextmanager
async def api() -> AsyncIterator[InProcessTransport]:
    store = Store.in_memory()
    async with ApiServer.start(
        store, KindRegistry.with_builtin_kinds(), VirtualClock(), rng=random.Random(0)
    ) as server:
        transport = InProcessTransport(server)
        await new_job(transport)
        yield transport


async def new_job(transport: Transport) -> None:
    client = KubeClient(transport)
    with suppress(NotFound):
        await client.delete(CONFIG_MAPS, "default", "demo")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}}
    OWNER["uid"] = (await client.create(CONFIG_MAPS, "default", body))["metadata"]["uid"]


def shelf(transport: Transport, identity: str = "first") -> ConfigMapMasterStateStore:
    return ConfigMapMasterStateStore(KubeClient(transport), "default", dict(OWNER), identity)


@on_virtual_time
async def test_what_was_saved_is_there_for_the_next_master_and_belongs_to_the_job() -> None:
    async with api() as transport:
        first = shelf(transport)
        assert await first.load() is None
        await first.save(b"1")
        await first.save(b"2")
        assert await shelf(transport, "second").load() == b"2"
        found = await KubeClient(transport).get(CONFIG_MAPS, "default", state_configmap_name("demo"))
        assert found["metadata"]["ownerReferences"] == [OWNER]


@on_virtual_time
async def test_a_master_that_was_replaced_cannot_write_any_more() -> None:
    async with api() as transport:
        first = MasterService("uid-1", store=shelf(transport))
        first.brain_state["stage"] = "create"
        first.request_save()
        await first.checkpointer.save_if_changed()
        second = MasterService("uid-1", store=shelf(transport, "second"))
        assert await second.load_saved_state()
        first.request_save()
        with pytest.raises(MasterSuperseded, match="second writes elasticjob-demo-dlrover-master-state now"):
            await first.serve_until_cancelled(KEYS, "127.0.0.1", 0)


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
    kept = InMemoryMasterStateStore()
    first = MasterService("uid-1", store=kept)
    first.set_members(running(2))
    first.register_dataset(DatasetSpec(name="train", size=100, shard_size=10))
    first.take_shard("train", WORKER, [])
    first.record_shard_report("train", WORKER, [0], [])
    first.take_shard("train", WORKER, [])
    first.set_parameter_servers(3, ("ps-0:2222",))
    first.brain_state["stage"] = "running"
    first.request_save()
    await first.checkpointer.save_if_changed()
    second = MasterService("uid-1", store=kept)
    assert await second.load_saved_state()
    second.set_members(running(2))
    assert second.membership.generation == 1
    data = second.dispatcher.get_dataset("train")
    assert (data.done_count, data.assigned_count, second.dispatcher.unassigned_shard_count) == (1, 1, 8)
    assert (second.parameter_servers.version, second.parameter_servers.hosts) == (3, ("ps-0:2222",))
    assert second.brain_state == {"stage": "running"}
    # The worker at it dies later, or died meanwhile: the new master knows whose it was.
    second.set_members(running(2)[1:])
    assert second.dispatcher.unassigned_shard_count == 9
    third = MasterService("uid-1", store=kept)
    assert await third.load_saved_state()
    third.set_members(running(2)[1:])
    assert third.dispatcher.unassigned_shard_count == 9


@on_virtual_time
async def test_shards_that_change_hands_are_saved_every_three_seconds_and_all_else_at_once() -> None:
    kept = InMemoryMasterStateStore()
    service = MasterService("uid-1", store=kept)
    task = asyncio.create_task(service.checkpointer.save_changes_forever())
    service.register_dataset(DatasetSpec(name="train", size=10**6, shard_size=1))
    await asyncio.sleep(0.1)
    assert kept.save_count == 1
    for position in range(300):
        service.take_shard("train", WORKER, [])
        service.record_shard_report("train", WORKER, [position], [])
        await asyncio.sleep(0.1)
    assert 9 <= kept.save_count <= 11
    saves = kept.save_count
    for version in range(1, 101):
        service.set_parameter_servers(version, ())
        await asyncio.sleep(0.1)
    assert 9 <= kept.save_count - saves <= 11
    saves = kept.save_count
    await asyncio.sleep(1000)
    assert kept.save_count <= saves + 1
    task.cancel()


@on_virtual_time
async def test_saving_stops_even_when_there_is_news_in_the_same_moment() -> None:
    service = MasterService("uid-1")
    task = asyncio.create_task(service.checkpointer.save_changes_forever())
    service.checkpointer.request_save(urgent=False)
    await asyncio.sleep(0.1)
    service.request_save()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@on_virtual_time
async def test_a_new_master_hands_out_nothing_before_it_knows_what_was_done_meanwhile() -> None:
    kept, other = InMemoryMasterStateStore(), MemberProcess(MemberKey("worker", 1), 1)
    first = MasterService("uid-1", store=kept)
    first.register_dataset(DatasetSpec(name="train", size=100, shard_size=10))
    first.take_shard("train", WORKER, [])
    await first.checkpointer.save_if_changed()
    first.record_shard_report("train", WORKER, [0], [])
    first.take_shard("train", WORKER, [])
    second, now = MasterService("uid-1", store=kept, time=lambda: now), 100.0
    await second.load_saved_state()
    second.tick()
    assert second.take_shard("train", other, []) is None
    second.handle_heartbeat(HeartbeatRequest(member="worker-0", process=1, done={"train": [0]}, holding={"train": [1]}))
    shard = second.take_shard("train", other, [])
    assert shard is not None
    assert shard.position == 2
    third, now = MasterService("uid-1", store=kept, time=lambda: now), 100.0
    await third.load_saved_state()
    third.tick()
    assert third.take_shard("train", other, []) is None
    now = 109.0
    third.tick()
    shard = third.take_shard("train", other, [])
    assert shard is not None


@on_virtual_time
async def test_a_thousand_workers_fit_into_the_memory_many_times() -> None:
    kept = InMemoryMasterStateStore()
    service = MasterService("uid-1", store=kept, timing=ServiceTiming(settle_time=0, throughput_window=0))
    service.set_members(running(1000))
    service.register_dataset(DatasetSpec(name="train", size=10**9, shard_size=10))
    for number in range(1000):
        holder = MemberProcess(MemberKey("worker", number), 12345)
        service.take_shard("train", holder, [])
        service.join_rendezvous(holder, f"10.1.{number // 250}.{number % 250}")
        service.handle_heartbeat(
            HeartbeatRequest(member=f"worker-{number}", process=12345, step=1, samples=10.0, memory=10**9)
        )
    assert service.rendezvous.round_number == 1
    await service.checkpointer.save_if_changed()
    assert kept.value is not None
    assert len(kept.value) < MAX_STATE_BYTES / 4


async def test_what_is_too_large_is_not_saved_and_said(caplog: pytest.LogCaptureFixture) -> None:
    kept = InMemoryMasterStateStore()
    service = MasterService("uid-1", store=kept)
    service.brain_state["much"] = "x" * MAX_STATE_BYTES
    service.request_save()
    await service.checkpointer.save_if_changed()
    assert kept.value is None
    assert "state too large to save" in caplog.text
