"""What members report, how it reaches the status, and how seldom that is written."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest

from pliant.cli.cluster.progress_receiver import get_or_create_secret
from pliant.controllers.progress_reports import STATUS_WRITE_INTERVAL_SECONDS, ProgressReceiver
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frameworks.progress_reporting import REPORT_TOKEN_VARIABLE, REPORT_URL_VARIABLE
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS
from pliant.model.framework import Rank
from pliant.model.job_keys import KeyPurpose, derive_job_key, key_scope
from pliant.runtime.http_server import HttpRequest, HttpResponse
from tests.faults.rig import JOBS
from tests.frontends.raw import raw_group, raw_job
from tests.virtual_time import VirtualClock, on_virtual_time

BASE = "http://operator:8082"
SECRET = b"known to operators"


class Office:
    """A job on an API server, and a desk that takes its reports."""

    def __init__(self, client: KubeClient, clock: VirtualClock, raw: dict[str, Any]) -> None:
        self.client = client
        self.desk = ProgressReceiver(client, clock, SECRET, BASE)
        job = AITrainingJobFrontend().parse(raw)
        rank = Rank(group=job.groups[0], index=1, attempt=0)
        contract = self.desk.reporting
        self.scope = key_scope(job)
        self.variables = {**contract.shared_environment(job), **contract.environment(job, rank, "main")}

    async def report(self, body: Any, *, url: str = "", token: str | None = None) -> HttpResponse:
        key = self.variables[REPORT_TOKEN_VARIABLE] if token is None else token
        path = (url or self.variables[REPORT_URL_VARIABLE]).removeprefix(BASE)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = HttpRequest(path=path, headers={"authorization": f"Bearer {key}"}, body=text)
        reply = self.desk.receive(request)
        return reply if isinstance(reply, HttpResponse) else await reply

    async def status(self) -> tuple[Any, int]:
        found = await self.client.get(JOBS, "default", "demo")
        return (found.get("status") or {}).get("progress"), int(found["metadata"]["resourceVersion"])


@asynccontextmanager
async def office() -> AsyncIterator[Office]:
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, AITrainingJobFrontend().crd())
        raw = raw_job({"worker": raw_group()})
        raw["metadata"] = {"name": "demo", "namespace": "default"}
        made = Office(client, clock, await client.create(JOBS, "default", raw))
        async with made.desk.write_in_background():
            yield made


@on_virtual_time
async def test_a_report_is_in_the_status_at_once() -> None:
    async with office() as here:
        assert (await here.report({"step": 120, "total": 1000, "loss": 0.31})).status is HTTPStatus.ACCEPTED
        await asyncio.sleep(0.1)
        progress, _ = await here.status()
        assert progress.pop("time").endswith("Z")
        assert progress == {"step": 120, "total": 1000, "metrics": {"loss": "0.31"}, "reportedBy": "worker-1"}


@on_virtual_time
async def test_however_often_members_report_a_job_is_written_twice_a_minute() -> None:
    async with office() as here:
        _, before = await here.status()
        for step in range(600):
            await here.report({"step": step, "loss": "nan"})
            await asyncio.sleep(0.1)
        await asyncio.sleep(STATUS_WRITE_INTERVAL_SECONDS + 1)
        progress, after = await here.status()
        assert (progress["step"], progress["metrics"]) == (599, {"loss": "nan"})
        assert after - before == 3  # the first report at once, then one write every thirty seconds
        await asyncio.sleep(10 * STATUS_WRITE_INTERVAL_SECONDS)
        assert (await here.status())[1] == after


@on_virtual_time
async def test_what_was_not_said_again_stays_and_there_are_never_many_figures() -> None:
    async with office() as here:
        await here.report({"step": 1, "total": 9, "loss": 2})
        for number in range(20):
            await here.report({f"figure{number}": number})
        await asyncio.sleep(2 * STATUS_WRITE_INTERVAL_SECONDS)
        progress, _ = await here.status()
        assert (progress["total"], progress["metrics"]["loss"], len(progress["metrics"])) == (9, "2", 8)


@on_virtual_time
async def test_only_members_of_a_job_report_about_it() -> None:
    async with office() as here:
        mine = here.variables[REPORT_URL_VARIABLE]
        assert (await here.report({"step": 1}, token="guessed")).status is HTTPStatus.UNAUTHORIZED
        assert (await here.report({"step": 1}, url=mine.replace("demo", "other"))).status is HTTPStatus.UNAUTHORIZED
        assert (await here.report({"step": 1}, url=f"{BASE}/metrics")).status is HTTPStatus.NOT_FOUND
        assert (await here.report({"step": 1}, url=mine.replace("/default/", "/../"))).status is HTTPStatus.NOT_FOUND
        assert (await here.report({"step": 1}, url=mine.replace("worker-1", "worker-0"))).status is HTTPStatus.ACCEPTED
        assert SECRET.decode() not in str(here.variables)


@on_virtual_time
async def test_keys_of_other_purposes_report_nothing() -> None:
    async with office() as here:
        for purpose in KeyPurpose:
            status = (await here.report({"step": 1}, token=derive_job_key(SECRET, purpose, here.scope))).status
            is_theirs = purpose is KeyPurpose.REPORTS
            assert status is (HTTPStatus.ACCEPTED if is_theirs else HTTPStatus.UNAUTHORIZED)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "a report must be a JSON object of numbers"),
        ([], "a report must be a JSON object of numbers"),
        ({}, "a report must have at least one value"),
        ({"step": "soon"}, "step: 'soon' is not a number"),
        ({"step": -1}, "step: must be an integer from 0 to 2^53, not -1.0"),
        ({"total": 1e300}, "total: must be an integer from 0 to 2^53, not 1e+300"),
        ({"a b": 1}, "'a b': a name must consist of"),
    ],
)
@on_virtual_time
async def test_a_report_that_cannot_be_used_says_why(body: Any, said: str) -> None:
    async with office() as here:
        answer = await here.report(body)
        assert answer.status is HTTPStatus.BAD_REQUEST
        assert said in answer.text


@on_virtual_time
async def test_reports_about_a_job_that_is_gone_end_there() -> None:
    async with office() as here:
        await here.client.delete(JOBS, "default", "demo")
        assert (await here.report({"step": 1})).status is HTTPStatus.ACCEPTED
        await asyncio.sleep(2 * STATUS_WRITE_INTERVAL_SECONDS)


@on_virtual_time
async def test_operators_that_start_at_once_agree_on_one_secret() -> None:
    async with office() as here:
        first, second = await asyncio.gather(*(get_or_create_secret(here.client, "default", "x") for _ in range(2)))
        assert first == second == await get_or_create_secret(here.client, "default", "x")
        assert len(first) == 32
