"""What replicas learn of their peers and of checkpoint requests, from the operator that leads."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import pytest

from pliant.controllers.membership import server
from pliant.controllers.membership.view import build_view
from pliant.controllers.membership.wait_query import WaitQuery
from pliant.errors import Forbidden
from pliant.kube.resources import PODS
from pliant.model.job_keys import KeyPurpose, KeyScope, derive_job_key
from tests.builders import NOON
from tests.controllers.replicas import SECRET, SPACE, departure, job_with_replicas
from tests.faults.rig import JOBS
from tests.virtual_time import on_virtual_time


@on_virtual_time
async def test_a_replica_learns_of_its_rank_and_its_peers() -> None:
    async with job_with_replicas() as job, job.led():
        await job.publish(4, "0,2")
        await asyncio.sleep(0.1)
        answer = await job.ask("generation=0&checkpoint=0&wait=30", "worker-2")
        assert answer.status is HTTPStatus.OK
        peers = [
            {"name": "worker-0", "group": "worker", "index": 0, "rank": 0, "address": "demo-worker-0.default"},
            {"name": "worker-2", "group": "worker", "index": 2, "rank": 1, "address": "demo-worker-2.default"},
        ]
        assert answer.json == {"generation": 4, "rank": 1, "members": peers, "checkpoint": None}
        assert (await job.ask(replica="worker-1")).json["rank"] is None


@on_virtual_time
async def test_a_replica_that_knows_everything_waits_and_learns_of_a_change_at_once() -> None:
    async with job_with_replicas() as job, job.led():
        await job.publish(4, "0-3")
        await asyncio.sleep(0.1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert (await job.ask("generation=4&wait=20")).json["generation"] == 4
        assert loop.time() - started == pytest.approx(20, abs=0.1)
        waiting = [asyncio.create_task(job.ask("generation=4&wait=60", f"worker-{index}")) for index in range(4)]
        await asyncio.sleep(10)
        assert not any(task.done() for task in waiting)
        await job.publish(5, "0-2")
        changed = loop.time()
        answers = await asyncio.gather(*waiting)
        assert loop.time() - changed < 0.2
        assert [answer.json["rank"] for answer in answers] == [0, 1, 2, None]
        assert {answer.json["generation"] for answer in answers} == {5}


@on_virtual_time
async def test_only_the_replica_that_leaves_learns_of_its_checkpoint_request() -> None:
    async with job_with_replicas() as job, job.led():
        pod = await job.create_pod(1)
        await job.publish(4, "0-3")
        waiting = [asyncio.create_task(job.ask("generation=4&wait=60", f"worker-{index}")) for index in range(2)]
        await asyncio.sleep(1)
        await job.publish(4, "0-3", {pod["metadata"]["uid"]: departure(1, request=3)})
        await asyncio.sleep(0.2)
        assert [task.done() for task in waiting] == [False, True]
        request = {"id": 3, "reason": "Resized", "deadline": "2026-01-01T12:00:30Z"}
        assert waiting[1].result().json["checkpoint"] == request
        assert (await job.post({"step": 7}, "worker-1")).json == {"checkpoint": request}
        assert (await job.post({"step": 7}, "worker-0")).json == {}
        # A replica that knows of the request is not told again, and one that has saved its state neither.
        known = asyncio.create_task(job.ask("generation=4&checkpoint=3&wait=60", "worker-1"))
        await asyncio.sleep(5)
        assert not known.done()
        known.cancel()
        assert (await job.post({"acknowledgedCheckpoint": 3}, "worker-1")).json == {}
        assert (await job.post({"step": 8}, "worker-1")).json == {}
        assert (await job.ask("generation=4&checkpoint=0", "worker-1")).json["checkpoint"] is None
        waiting[0].cancel()


@on_virtual_time
async def test_a_request_to_an_earlier_pod_of_the_name_is_none_of_this_one() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(0)
        await job.publish(4, "0-3", {"uid-of-an-earlier-pod": departure(0)})
        await asyncio.sleep(0.1)
        assert (await job.ask()).json["checkpoint"] is None


@on_virtual_time
async def test_a_departure_that_the_engine_saw_acknowledged_is_over() -> None:
    async with job_with_replicas() as job, job.led():
        await job.publish(4, "0-3", {"gone": departure(0, acknowledged_at=NOON), "other": departure(1)})
        await asyncio.sleep(0.1)
        assert (await job.ask()).json["checkpoint"] is None
        assert (await job.ask(replica="worker-1")).json["checkpoint"]["id"] == 1


@on_virtual_time
async def test_an_acknowledgement_is_stored_once_and_never_lowered() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(0)
        await asyncio.sleep(0.1)
        assert (await job.post({"acknowledgedCheckpoint": 0})).status is HTTPStatus.ACCEPTED
        assert await job.acknowledged() == "0"
        job.transport.requests.clear()
        posts = [job.post({"acknowledgedCheckpoint": number}) for number in (3, 2, 3, 0)]
        assert {answer.status for answer in await asyncio.gather(*posts)} == {HTTPStatus.ACCEPTED}
        assert await job.acknowledged() == "3"
        assert job.transport.requests.count("PATCH pods/demo-worker-0") == 1


@on_virtual_time
async def test_an_acknowledgement_may_come_with_a_report() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(0)
        await asyncio.sleep(0.1)
        assert (await job.post({"step": 5, "acknowledgedCheckpoint": 2})).status is HTTPStatus.ACCEPTED
        await asyncio.sleep(0.1)
        assert await job.acknowledged() == "2"
        assert (await job.client.get(JOBS, SPACE, "demo"))["status"]["progress"]["step"] == 5


@on_virtual_time
async def test_an_acknowledgement_needs_a_pod_of_the_job() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(1, is_owned=False)
        await asyncio.sleep(0.1)
        for replica in ("worker-0", "worker-1"):
            assert (await job.post({"acknowledgedCheckpoint": 1}, replica)).status is HTTPStatus.NOT_FOUND
        assert await job.acknowledged(1) is None


@on_virtual_time
async def test_an_acknowledgement_of_a_replaced_pod_is_not_found() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(0)
        await asyncio.sleep(0.1)

        async def replace_pod() -> None:
            await job.client.delete(PODS, SPACE, "demo-worker-0", grace_period_seconds=0)
            await job.create_pod(0)

        job.transport.before_patch = replace_pod
        assert (await job.post({"acknowledgedCheckpoint": 1})).status is HTTPStatus.NOT_FOUND
        assert await job.acknowledged() is None


@on_virtual_time
async def test_an_acknowledgement_that_cannot_be_stored_is_to_be_repeated() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(0)
        await asyncio.sleep(0.1)

        async def fail() -> None:
            job.transport.before_patch = fail
            raise Forbidden(403, "Forbidden", "no")

        job.transport.before_patch = fail
        assert (await job.post({"acknowledgedCheckpoint": 1})).status is HTTPStatus.SERVICE_UNAVAILABLE
        job.transport.before_patch = None
        assert (await job.post({"acknowledgedCheckpoint": 1})).status is HTTPStatus.ACCEPTED
        assert await job.acknowledged() == "1"


@on_virtual_time
async def test_only_replicas_of_the_job_learn_of_its_members() -> None:
    async with job_with_replicas() as job, job.led():
        other = KeyScope(JOBS.group, JOBS.plural, SPACE, "other", job.uid)
        for token in ("guessed", "", derive_job_key(SECRET, KeyPurpose.REPORTS, other)):
            assert (await job.ask("wait=60", token=token)).status is HTTPStatus.UNAUTHORIZED
            assert (await job.post({"acknowledgedCheckpoint": 1}, token=token)).status is HTTPStatus.UNAUTHORIZED
        assert job.transport.requests.count("PATCH pods/demo-worker-0") == 0


@on_virtual_time
async def test_a_replica_that_the_job_cannot_have_is_not_found() -> None:
    async with job_with_replicas() as job, job.led():
        for replica in ("worker", "worker-", "worker-01", "worker--1", "ps-0", f"worker-{'9' * 200}", "..", "a" * 300):
            assert (await job.ask("wait=60", replica)).status is HTTPStatus.NOT_FOUND
            assert (await job.post({"acknowledgedCheckpoint": 1}, replica)).status is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("wait=61", "wait"),
        ("wait=-1", "wait"),
        ("wait=nan", "wait"),
        (f"wait={'9' * 5000}", "wait"),
        ("wait=٣", "wait"),
        ("generation=x", "generation"),
        (f"generation={'9' * 5000}", "generation"),
        ("checkpoint=-1", "checkpoint"),
        ("checkpoint=", "checkpoint"),
        ("&".join(f"a{number}=1" for number in range(100)), "parameters"),
    ],
)
def test_a_bad_parameter_is_named(query: str, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        WaitQuery.parse(query)


def test_parameters_that_are_missing_have_defaults() -> None:
    assert WaitQuery.parse("") == WaitQuery(generation=0, checkpoint=0, seconds=0)
    assert WaitQuery.parse("wait=0.5&generation=3&other=x") == WaitQuery(generation=3, checkpoint=0, seconds=0.5)


@on_virtual_time
async def test_a_bad_request_is_answered_with_its_error() -> None:
    async with job_with_replicas() as job, job.led():
        assert await job.ask("wait=61") == (HTTPStatus.BAD_REQUEST, "wait: must be a number of seconds from 0 to 60\n")
        for number in (-1, 1.5, 2**60, 1e300, "3", "x"):
            answer = await job.post({"acknowledgedCheckpoint": number})
            assert answer.status is HTTPStatus.BAD_REQUEST
            assert "acknowledgedCheckpoint" in answer.text


@on_virtual_time
async def test_replicas_of_a_deleted_job_are_woken() -> None:
    async with job_with_replicas() as job, job.led():
        waiting = asyncio.create_task(job.ask("wait=60"))
        await asyncio.sleep(1)
        await job.client.delete(JOBS, SPACE, "demo")
        await asyncio.sleep(0.2)
        assert waiting.done()
        assert waiting.result().status is HTTPStatus.NOT_FOUND


@on_virtual_time
async def test_reports_and_other_changes_of_the_status_wake_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with job_with_replicas() as job, job.led():
        await job.publish(4, "0-3")
        waiting = asyncio.create_task(job.ask("generation=4&wait=60"))
        await asyncio.sleep(1)
        builds = 0

        def counted(*args: Any) -> Any:
            nonlocal builds
            builds += 1
            return build_view(*args)

        monkeypatch.setattr("pliant.controllers.membership.server.build_view", counted)
        for step in range(3):
            assert (await job.post({"step": step})).status is HTTPStatus.ACCEPTED
            await asyncio.sleep(0.1)
        await job.publish(4, "0-3", checkpoint_requests=7)
        await asyncio.sleep(1)
        assert (waiting.done(), builds) == (False, 0)
        await job.publish(5, "0-3")
        await asyncio.sleep(0.1)
        assert (waiting.done(), builds) == (True, 1)


@on_virtual_time
async def test_the_leader_answers_without_a_request_to_the_api_server() -> None:
    async with job_with_replicas() as job, job.led():
        await job.create_pod(0)
        await job.publish(4, "0-3")
        await asyncio.sleep(0.1)
        job.transport.requests.clear()
        for index in range(4):
            await job.ask("generation=0&wait=10", f"worker-{index}")
            await job.ask("generation=4&wait=10", f"worker-{index}")
        await job.post({"acknowledgedCheckpoint": 0})
        assert job.transport.requests == ["PATCH pods/demo-worker-0"]


@on_virtual_time
async def test_the_number_of_waiting_requests_of_a_job_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_WAITING_PER_JOB", 2)
    async with job_with_replicas() as job, job.led():
        waiting = [asyncio.create_task(job.ask("wait=60")) for _ in range(3)]
        await asyncio.sleep(1)
        assert [task.result().status for task in waiting if task.done()] == [HTTPStatus.SERVICE_UNAVAILABLE]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        again = asyncio.create_task(job.ask("wait=60"))
        await asyncio.sleep(1)
        assert not again.done()
        again.cancel()
