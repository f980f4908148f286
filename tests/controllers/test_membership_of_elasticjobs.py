"""Members of ElasticJobs ask an operator at work with what their pods have: a URL and a token."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from pliant.kube.resources import PODS
from pliant.model.labels import ACKNOWLEDGED_CHECKPOINT_ANNOTATION
from pliant.runtime.http_server import HttpRequest, HttpResponse
from tests.controllers.elastic import JOBS, SPACE, Stage, foreign_pod, staged, workers
from tests.virtual_time import on_virtual_time


async def send(stage: Stage, pod: dict[str, Any], body: Any = None, replica: str = "") -> tuple[HTTPStatus, Any]:
    """Send what a program in this pod sends; in the name of another replica if it is given."""
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    path = variables["PLIANT_REPORT_URL"].removeprefix("http://operator:8082")
    path = f"{path.rpartition('/')[0]}/{replica}" if replica else path
    headers = {"authorization": f"Bearer {variables['PLIANT_REPORT_TOKEN']}"}
    assert stage.receiver is not None
    method, text = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    reply = stage.receiver.receive(HttpRequest(method=method, path=path, headers=headers, body=text))
    response = reply if isinstance(reply, HttpResponse) else await reply
    return response.status, json.loads(b"".join(response.encode()).partition(b"\r\n\r\n")[2])


async def acknowledged(stage: Stage, name: str) -> str | None:
    pod = await stage.client.get(PODS, SPACE, name)
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    return annotations.get(ACKNOWLEDGED_CHECKPOINT_ANNOTATION)


@on_virtual_time
async def test_members_are_known_by_their_ids_and_may_be_pods_that_the_master_created() -> None:
    async with staged() as stage:
        job = await stage.submit()
        await asyncio.sleep(3)
        await stage.plan("first", **workers(2))
        await asyncio.sleep(5)
        await stage.client.create(PODS, SPACE, foreign_pod(job, 7))
        await asyncio.sleep(5)
        published = {"generation": 3, "indexes": {"worker": "0-1,7"}}
        await stage.client.patch(
            JOBS, SPACE, "demo", {"status": {"pliant": {"membership": published}}}, subresource="status"
        )
        await asyncio.sleep(1)
        pod = await stage.client.get(PODS, SPACE, "demo-edljob-worker-1")
        status, reply = await send(stage, pod)
        assert status is HTTPStatus.OK
        assert [each["name"] for each in reply["members"]] == ["worker-0", "worker-1", "worker-7"]
        assert [each["rank"] for each in reply["members"]] == [0, 1, 2]
        assert reply["rank"] == 1
        assert reply["members"][1]["address"] == f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}.default"
        assert (await send(stage, pod, {"acknowledgedCheckpoint": 0}))[0] is HTTPStatus.ACCEPTED
        assert (await send(stage, pod, {"acknowledgedCheckpoint": 4}, "worker-7"))[0] is HTTPStatus.ACCEPTED
        assert await acknowledged(stage, "demo-edljob-worker-1") == "0"
        assert await acknowledged(stage, "demo-edljob-worker-7") == "4"
