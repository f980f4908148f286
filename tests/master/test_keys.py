"""Who may call a master: members with the keys of its job, and nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pliant.errors import UserError
from pliant.frameworks.master_keys import MasterKeys
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.master.checkpoint import InMemoryMasterStateStore
from pliant.master.data import dispatcher
from pliant.master.data.shards import DatasetSpec, MemberProcess
from pliant.master.model import MemberKey
from pliant.master.server import authentication, http, notifier
from pliant.master.server.authentication import read_api_keys
from pliant.master.server.service import MasterService
from pliant.model.job_keys import KeyPurpose, derive_job_key, key_scope
from tests.frontends.elasticjob import raw_ej
from tests.master.people import KEY_VARIABLES, KEYS, node, running, with_key
from tests.master.test_service import WAITS, serving

ATTACK = (
    ("/v1/datasets", {"name": "x", "size": 1, "shard_size": 1}),
    ("/v1/datasets/x/next", {"member": "worker-0"}),
    ("/v1/datasets/x/report", {"member": "worker-0", "done": [0]}),
)
"""What ended a job as Succeeded: all shards are done, so that its worker stops and exits with 0."""
SECRET = b"known to operators"


def keys_of(uid: str, **metadata: str) -> dict[str, str]:
    """The variables of the pods of a job."""
    raw = raw_ej()
    raw["metadata"] |= {"uid": uid, **metadata}
    return dict(MasterKeys(SECRET).shared_environment(ElasticJobFrontend().parse(raw, None)))


def headers_without_the_key() -> Iterator[Any]:
    """What strangers may send."""
    yield pytest.param({}, id="none")
    yield pytest.param({"Authorization": "Bearer "}, id="empty")
    yield pytest.param({"Authorization": f"Basic {KEYS[KeyPurpose.MASTER]}"}, id="other scheme")
    yield pytest.param({"Authorization": "Bearer \u00fc\u0080"}, id="not ASCII")
    yield pytest.param({"Authorization": f"Bearer {KEYS[KeyPurpose.MASTER][:-1]}"}, id="beginning of it")
    yield pytest.param(with_key(KeyPurpose.MEMBERSHIP), id="another purpose")
    yield pytest.param({"Authorization": f"Bearer {keys_of('other')['PLIANT_MASTER_KEY']}"}, id="another job")


def port_of(caller: Any) -> int:
    return int(caller._session._base_url.port)


async def post(caller: Any, path: str, body: Any, headers: dict[str, str]) -> tuple[int, dict[str, Any], Any]:
    async with caller._session.post(path, data=body, headers=headers) as reply:
        return reply.status, await reply.json(), reply.headers


@pytest.mark.parametrize("headers", list(headers_without_the_key()))
async def test_three_posts_of_a_stranger_end_no_job(headers: dict[str, str]) -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(2))
    before = service._dump_state()
    async with serving(service) as caller:
        for path, body in ATTACK:
            status, answer, more = await post(caller, path, msgspec.json.encode(body), headers)
            assert (status, more["WWW-Authenticate"]) == (401, "Bearer")
            assert "`Authorization: Bearer $PLIANT_MASTER_KEY`" in answer["error"]
            assert not any(key in answer["error"] for key in KEYS.values())
        assert service._dump_state() == before
        assert not service.dispatcher.are_datasets_done
        # Members go on.
        await caller.post("/v1/datasets", name="x", size=2, shard_size=1)
        assert (await caller.post("/v1/datasets/x/next", "worker-0"))["shard"]["position"] == 0
        assert caller.status == 200


async def test_no_key_is_in_the_log_or_the_saved_state_of_a_master(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = InMemoryMasterStateStore()
    async with serving(MasterService("uid-1", timing=WAITS, store=store)) as caller:
        for headers in ({"Authorization": "Bearer guessed-4711"}, with_key(KeyPurpose.MASTER)):
            for path, body in ATTACK:
                await post(caller, path, msgspec.json.encode(body), headers)
    assert store.value
    told = [str({**record.__dict__, "message": record.getMessage()}) for record in caplog.records]
    assert any("dataset registered" in line for line in told)
    for word in (*KEYS.values(), "guessed-4711"):
        assert word.encode() not in store.value
        assert [line for line in told if word in line] == []


@pytest.mark.parametrize("path", ["/v1/heartbeat", "/v1/rendezvous", "/v1/elsewhere"])
async def test_every_other_call_that_changes_something_needs_the_key_of_the_master(path: str) -> None:
    service = MasterService("uid-1", timing=WAITS)
    async with serving(service) as caller:
        body = msgspec.json.encode({"member": "worker-0", "generation": 7, "round": 3})
        status, _, _ = await post(caller, path, body, with_key(KeyPurpose.MEMBERSHIP))
        assert (status, dict(service.heartbeats()), service.membership.generation) == (401, {}, 0)


@pytest.mark.parametrize("path", ["/v1/membership?generation=9", "/v1/ps", "/v1/datasets", "/v1/elsewhere"])
async def test_what_is_read_needs_the_key_for_reading_and_names_it(path: str) -> None:
    service = MasterService("uid-1", timing=WAITS)
    async with serving(service) as caller:
        for headers in ({}, with_key(KeyPurpose.MASTER)):
            async with caller._session.get(path, headers=headers) as reply:
                assert reply.status == 401
                assert "$PLIANT_MEMBERSHIP_KEY" in (await reply.json())["error"]
    assert service.membership.generation == 0


async def test_a_member_cannot_report_what_another_holds() -> None:
    service = MasterService("uid-1", timing=WAITS)
    service.set_members(running(2))
    async with serving(service) as caller:
        await caller.post("/v1/datasets", name="x", size=2, shard_size=1)
        assert (await caller.post("/v1/datasets/x/next", "worker-0"))["shard"]["position"] == 0
        await caller.post("/v1/datasets/x/report", "worker-1", done=[0, 1])
        await caller.post("/v1/heartbeat", "worker-1", done={"x": [0, 1]}, holding={"x": [0, 1]})
        [data] = (await caller.get("/v1/datasets"))["datasets"]
        assert (data["done"], data["assigned"], data["available"]) == (0, 1, 1)
        await caller.post("/v1/datasets/x/report", "worker-0", done=[0])
        assert (await caller.get("/v1/datasets"))["datasets"][0]["done"] == 1


async def test_health_and_figures_need_no_key_and_tell_no_names() -> None:
    service = MasterService("uid-4711", timing=WAITS)
    service.set_members((node("worker-7"), node("worker-8")))
    async with serving(service) as caller:
        await caller.post("/v1/datasets", name="secret-project", size=2, shard_size=1)
        for path in ("/healthz", "/metrics"):
            async with caller._session.get(path) as reply:
                assert reply.status == 200
                text = await reply.text()
            private = ("uid-4711", "secret-project", "worker-7", "demo-edljob", *KEYS.values())
            assert [word for word in private if word in text] == []


async def test_the_key_is_checked_before_the_body_is_read() -> None:
    async with serving(MasterService("uid-1")) as caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(caller))
        # Not one byte of the body follows.
        writer.write(b"POST /v1/datasets HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
        assert b"$PLIANT_MASTER_KEY" in await reader.read()  # and it is closed
        writer.close()


async def test_a_body_that_is_too_large_is_refused_in_words() -> None:
    async with serving(MasterService("uid-1")) as caller:
        body = b'{"member": "' + b"x" * http.MAX_REQUEST_BODY_BYTES + b'"}'
        status, answer, _ = await post(caller, "/v1/heartbeat", body, with_key(KeyPurpose.MASTER))
        assert (status, answer["error"]) == (413, f"body: must have at most {http.MAX_REQUEST_BODY_BYTES} bytes")
        squeezed = {**with_key(KeyPurpose.MASTER), "Content-Encoding": "gzip"}
        assert (await post(caller, "/v1/heartbeat", b"no gzip", squeezed))[0] == 400


async def test_there_are_limits_of_requests_that_wait_and_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "MAX_WAITING_REQUESTS", 1)
    monkeypatch.setattr(dispatcher, "MAX_PROCESSES_PER_MEMBER", 2)
    monkeypatch.setattr(dispatcher, "MAX_PROCESSES", 3)
    service = MasterService("uid-1", timing=WAITS)
    async with serving(service) as caller:
        for process in (1, 2, 2):
            await caller.post("/v1/heartbeat", "worker-0", process=process)
        assert caller.status == 200
        answer = await caller.post("/v1/heartbeat", "worker-0", process=3)
        assert (caller.status, answer["error"]) == (429, "process: worker-0 has more than 2 processes")
        await caller.post("/v1/heartbeat", "worker-1")
        answer = await caller.post("/v1/heartbeat", "worker-2")
        assert (caller.status, answer["error"]) == (429, "process: the job has more than 3 processes")
        waiting = asyncio.create_task(caller.get("/v1/ps?version=0"))
        while not service.ps_notifier._waiting:  # noqa: ASYNC110 - a notifier does not say who waits
            await asyncio.sleep(0.01)
        answer = await caller.get("/v1/ps?version=0")
        assert (caller.status, answer["error"].partition(":")[0]) == (429, "wait")
        service.set_parameter_servers(1, ("ps-0:2222",))
        await waiting


def test_processes_and_members_that_are_gone_are_forgotten() -> None:
    work = dispatcher.ShardDispatcher(lease_seconds=60.0)
    work.register_dataset(DatasetSpec(name="train", size=100, shard_size=1))
    for number in range(50):
        holder = MemberProcess(MemberKey("worker", number), 1)
        work.renew_lease(holder, 0.0)
        work.take_shard("train", holder)
    work.expire_leases(200.0)
    assert (len(work.shard_takers), len(work._renewed_at), len(work._processes_by_member)) == (0, 0, 0)


async def test_connections_of_strangers_are_closed_and_those_of_members_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authentication, "MAX_UNAUTHENTICATED_CONNECTIONS", 3)
    monkeypatch.setattr(http, "CONNECTION_CHECK_SECONDS", 0.02)
    async with serving(MasterService("uid-1", timing=WAITS)) as caller:
        await caller.get("/v1/ps")
        strangers = [await asyncio.open_connection("127.0.0.1", port_of(caller)) for _ in range(20)]
        closed = [asyncio.create_task(reader.read()) for reader, _ in strangers]
        while sum(each.done() for each in closed) < 17:  # noqa: ASYNC110 - nothing tells when one is closed
            await asyncio.sleep(0.01)
        assert not any(each.done() for each in closed[17:])
        monkeypatch.setattr(authentication, "UNAUTHENTICATED_TIMEOUT_SECONDS", 0.0)
        await asyncio.gather(*closed, return_exceptions=True)
        await caller.get("/v1/ps")
        assert caller.status == 200
        for _, writer in strangers:
            writer.close()


def test_every_job_and_every_purpose_has_a_key_of_its_own() -> None:
    mine = keys_of("uid-1")
    assert mine == keys_of("uid-1")
    others = [keys_of("uid-2"), keys_of("uid-1", namespace="other"), keys_of("uid-1", name="other")]
    raw = raw_ej()
    raw["metadata"]["uid"] = "uid-1"
    scope = key_scope(ElasticJobFrontend().parse(raw, None))
    reports = derive_job_key(SECRET, KeyPurpose.REPORTS, scope)
    assert len({*mine.values(), reports, *(key for each in others for key in each.values())}) == 9
    assert derive_job_key(b"another", KeyPurpose.MASTER, scope) not in mine.values()


def test_jobs_of_other_masters_get_no_keys() -> None:
    raw = raw_ej()
    container = {"name": "main", "image": "dlrover", "command": ["python", "-m", "dlrover.python.master.main"]}
    raw["spec"]["replicaSpecs"]["dlrover-master"] = {"template": {"spec": {"containers": [container]}}}
    assert MasterKeys(SECRET).shared_environment(ElasticJobFrontend().parse(raw, None)) == {}


def test_a_master_without_keys_does_not_start() -> None:
    assert read_api_keys(KEY_VARIABLES) == KEYS
    with pytest.raises(UserError, match="PLIANT_MEMBERSHIP_KEY is not set"):
        read_api_keys({"PLIANT_MASTER_KEY": "x"})
