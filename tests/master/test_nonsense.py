"""What a master is told that cannot be so: by members, by labels, by a memory that somebody has meddled with."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from pliant import elastic
from pliant.errors import InvalidSpec
from pliant.kube.resources import PODS
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport
from pliant.master import main as program
from pliant.master.checkpoint import InMemoryMasterStateStore
from pliant.master.data.shards import MAX_UNRECORDED_SHARDS, DatasetSpec, MemberProcess
from pliant.master.server.messages import DatasetRegistration, HeartbeatRequest, RendezvousJoinRequest, decode_message
from pliant.master.server.service import MasterService
from tests.controllers.elastic import JOBS, PLANS, SPACE, foreign_pod
from tests.master.people import KEY_VARIABLES, running
from tests.master.test_service import serving
from tests.master.test_steering import mastered
from tests.virtual_time import on_virtual_time, passing

A_WHILE = timedelta(seconds=20)


@on_virtual_time
async def test_pods_that_only_carry_the_labels_of_members_are_none() -> None:
    async with mastered(2) as master:
        stage = master.stage
        impostor = foreign_pod(await stage.client.get(JOBS, SPACE, "demo"), 7)
        del impostor["metadata"]["ownerReferences"]
        impostor["metadata"]["name"] = "impostor"
        await stage.client.create(PODS, SPACE, impostor)
        await passing(A_WHILE)
        assert master.service is not None
        assert [str(node.key) for node in master.service.members] == ["worker-0", "worker-1"]
        await stage.client.delete(PODS, SPACE, "impostor", grace_period_seconds=0)
        await passing(A_WHILE)
        assert list(await stage.plans()) == ["demo-scaleplan-0"]


@on_virtual_time
async def test_a_plan_for_another_job_keeps_no_master_waiting_though_it_is_labelled_so() -> None:
    async with mastered(2) as master:
        stage = master.stage
        await stage.submit(name="resting", suspend=True)
        labels = {"scale-type": "auto", "elasticjob.dlrover/name": "demo"}
        spec = {"ownerJob": "resting", "replicaResourceSpecs": {"worker": {"replicas": 1}}}
        meta = {"name": "astray", "labels": labels}
        body = {"apiVersion": PLANS.api_version, "kind": PLANS.kind, "metadata": meta, "spec": spec}
        await stage.client.create(PLANS, SPACE, body)
        await passing(A_WHILE)
        assert (await stage.plans())["astray"]["status"]["phase"] == "Pending"
        await stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(A_WHILE)
        assert await stage.workers() == ["0", "2"]


@pytest.mark.parametrize(
    "said",
    [b'"samples": 1e999', b'"samples": 1e308', b'"samples": -1', b'"samples": NaN', b'"cpu": 1e300', b'"step": -3'],
)
def test_figures_that_nobody_has_are_refused(said: bytes) -> None:
    with pytest.raises(InvalidSpec):
        decode_message(b'{"member": "worker-0", ' + said + b"}", HeartbeatRequest)


@pytest.mark.parametrize("field", ["size", "shard_size", "epochs", "shuffle"])
def test_a_data_set_of_numbers_that_no_memory_could_hold_is_refused(field: str) -> None:
    said = {"name": "d", "size": 10, "shard_size": 1, field: 10**400}
    with pytest.raises(InvalidSpec):
        decode_message(str(said).replace("'", '"').encode(), DatasetRegistration)


def test_an_address_that_fills_the_memory_is_refused() -> None:
    with pytest.raises(InvalidSpec):
        decode_message(msgspec.json.encode({"member": "worker-0", "address": "x" * 1000}), RendezvousJoinRequest)


async def test_a_generation_or_round_from_nowhere_moves_nobody() -> None:
    service = MasterService("u")
    service.set_members(running(2))
    async with serving(service) as caller:
        before = service.membership.generation
        await caller.get("/v1/membership?generation=1e300&wait=0")
        await caller.post("/v1/heartbeat", "worker-0", generation=2**53, round=2**53)
        assert (caller.status, service.membership.generation, service.rendezvous.round_number) == (200, before, 0)


def test_claims_far_ahead_do_not_make_a_list_of_the_whole_data_set() -> None:
    service = MasterService("u")
    service.dispatcher.load_state(service.dispatcher.dump_state())  # as a successor: it does not know what was assigned
    service.register_dataset(DatasetSpec(name="d", size=2**40, shard_size=1))
    holder = MemberProcess(running(1)[0].key, 0)
    service.record_shard_report("d", holder, [MAX_UNRECORDED_SHARDS - 1], [])
    with pytest.raises(InvalidSpec):
        service.record_shard_report("d", holder, [MAX_UNRECORDED_SHARDS + 1000], [])
    service.record_shard_report("d", holder, [MAX_UNRECORDED_SHARDS], [])


@pytest.mark.parametrize(
    "memory",
    [
        b"",
        b"no JSON",
        b"[]",
        b'{"format": 2}',
        b'{"format": 2, "membership": 5}',
        b'{"format": 2, "membership": {"generation": 9, "members": []}, "shards": {"datasets": [{}]}}',
    ],
)
async def test_a_memory_that_makes_no_sense_is_left_aside_as_a_whole(memory: bytes) -> None:
    service = MasterService("u", store=InMemoryMasterStateStore(memory))
    assert not await service.load_saved_state()
    assert (service.membership.generation, list(service.dispatcher.datasets), service.brain_state) == (0, [], {})
    service.set_members(running(1))
    assert service.membership.generation == 1


def test_a_mistake_of_the_master_is_not_the_end_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(program, "create_transport", mistaken)
    for variable, value in KEY_VARIABLES.items():
        monkeypatch.setenv(variable, value)
    assert program.main(["--job_name", "demo"]) == program.RESTART_MASTER_EXIT_CODE


@on_virtual_time
async def test_members_that_somebody_deletes_at_once_again_and_again_are_not_asked_for_without_end() -> None:
    async with mastered(2) as master:
        stage = master.stage
        for _ in range(1200):
            for number in (await stage.workers())[1:]:
                await stage.client.delete(PODS, SPACE, f"demo-edljob-worker-{number}", grace_period_seconds=0)
            await passing(timedelta(seconds=0.5))
        assert master.service is not None
        assert master.service.brain_state["next_plan_number"] < 15
        await passing(timedelta(minutes=10))
        assert len(await stage.workers()) == 2


class Contrary:
    """A connection on which every write meets a conflict that is not about a name, as with a busy quota."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.writes = 0

    async def send(self, request: Request) -> Reply:
        if request.method == "GET":
            return await self._inner.send(request)
        self.writes += 1
        status = {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "busy"}
        return Reply(status=409, body=msgspec.json.encode(status))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        return self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@on_virtual_time
async def test_conflicts_without_end_are_met_with_longer_and_longer_waits() -> None:
    async with mastered(2) as master:
        await master.stop()
        contrary = Contrary(master.stage.client._transport)
        master.line = contrary  # type: ignore[assignment]
        await master.start()
        await master.stage.client.delete(PODS, SPACE, "demo-edljob-worker-1", grace_period_seconds=0)
        await passing(timedelta(minutes=10))
        assert 3 < contrary.writes < 15


class Scalar:
    """A number as libraries have them: JSON knows none of these."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (7, 7),
        (Scalar(7.0), 7),
        (7.0, 7),
        (True, 1),
        (float("nan"), None),
        (float("inf"), None),
        (-1, None),
        ("many", None),
        (10**400, None),
        (None, None),
    ],
)
def test_figures_of_any_arithmetic_are_told_and_those_that_are_none_left_out(value: Any, told: int | None) -> None:
    assert elastic._parse_metric("step", value, int) == told
    assert elastic._parse_metric("samples", value, float) == told
