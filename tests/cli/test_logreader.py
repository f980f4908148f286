"""What members wrote is shown to the last line, in whatever order the news of their end come."""

from __future__ import annotations

import asyncio
import io
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.cli.apply import install_crds
from pliant.cli.jobs import found
from pliant.cli.logreader import LogReader
from pliant.cli.yamltext import documents
from pliant.controllers.job import resource_of
from pliant.embedded.server.logs import LogOptions
from pliant.frontends import FRONTENDS
from pliant.frontends.memory import BLOB, blob_of
from pliant.kube.resources import PODS
from pliant.model import labels
from pliant.model.state import EngineState, Phase
from tests.cli.toy_node import JOB
from tests.embedded.serving import pod, serving

[AITJ, *_] = FRONTENDS.values()
EVERYTHING = Namespace(
    group=None, rank=None, container=None, tail=None, since=None, prefix=True, previous=False, follow=True
)


class Hello:
    """Every container wrote the same."""

    async def read(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        yield b"hello\n"


class Deaf:
    """A watch that brings no news."""

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_the_end_of_a_job_may_be_known_before_its_pods_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogReader, "_pods", lambda *_: Deaf())
    async with serving(logs=Hello()) as served:
        client, jobs = served.client, resource_of(AITJ)
        await install_crds(client, [AITJ])
        [written] = documents("job.yaml", JOB.encode())
        one = found(AITJ, await client.create(jobs, "default", written.value))
        out = io.StringIO()
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            following = tasks.create_task(LogReader(client, one, EVERYTHING, out).follow(tasks))
            await asyncio.sleep(0.1)  # until it follows; nothing tells when
            owner = {"apiVersion": "v1", "kind": "AITrainingJob", "name": "demo", "uid": one.uid}
            names = {labels.JOB: "demo", labels.REPLICA: "worker", labels.INDEX: "0"}
            member = pod("demo-worker-0", labels=names, ownerReferences=[owner])
            member["spec"]["nodeName"] = "node-0"
            await client.create(PODS, "default", member)
            ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
            status = {"phase": "Succeeded", "containerStatuses": [ended]}
            await client.patch(PODS, "default", "demo-worker-0", {"status": status}, subresource="status")
            memory = blob_of(EngineState(phase=Phase.SUCCEED, started_at=served.clock.now()))
            await client.patch(jobs, "default", "demo", {"status": {BLOB: memory}}, subresource="status")
            await following
        assert out.getvalue() == "worker-0 │ hello\n"
