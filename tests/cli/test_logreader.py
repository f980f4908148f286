"""What members wrote is shown to the last line, in whatever order the news of their end come."""

from __future__ import annotations

import asyncio
import io
from argparse import Namespace
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.cli.cluster.job_lookup import parse_job_object
from pliant.cli.input.yaml_reader import parse_documents
from pliant.cli.output.log_reader import JobLogPrinter
from pliant.controllers.job import resource_of
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.frontends import FRONTENDS
from pliant.frontends.status.engine_state import STATE_FIELD, dump_state
from pliant.kube.resources import PODS
from pliant.model import labels
from pliant.model.state import EngineState, JobPhase
from tests.cli.toy_node import JOB
from tests.embedded.serving import pod, serving

[AITJ, *_] = FRONTENDS.values()
EVERYTHING = Namespace(
    group=None, rank=None, container=None, tail=None, since=None, prefix=True, previous=False, follow=True
)


class Hello:
    """Every container wrote the same."""

    async def read_container_log(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        yield b"hello\n"


class Deaf:
    """A watch that brings no news."""

    async def run(self) -> None:
        await asyncio.Event().wait()


class Asked:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.options: list[LogOptions] = []

    async def read_container_log(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        self.options.append(options)
        yield b"hello\n"


async def test_only_the_lines_that_are_asked_for_are_read() -> None:
    logs = Asked()
    async with serving(logs=logs) as served:
        client, jobs = served.client, resource_of(AITJ)
        await install_crds(client)
        [written] = parse_documents("job.yaml", JOB.encode())
        one = parse_job_object(AITJ, await client.create(jobs, "default", written.value))
        await client.create(PODS, "default", member_of(one.uid))
        ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
        status = {"phase": "Succeeded", "containerStatuses": [ended]}
        await client.patch(PODS, "default", "demo-worker-0", {"status": status}, subresource="status")
        few = Namespace(**{**vars(EVERYTHING), "follow": False, "tail": 5, "since": timedelta(minutes=5)})
        assert await JobLogPrinter(client, one, few, io.StringIO()).print_existing()
        [options] = logs.options
        assert (options.tail_lines, options.since_ns is not None) == (5, True)


def member_of(uid: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "AITrainingJob", "name": "demo", "uid": uid}
    names = {labels.JOB_NAME_LABEL: "demo", labels.REPLICA_GROUP_LABEL: "worker", labels.REPLICA_INDEX_LABEL: "0"}
    member = pod("demo-worker-0", labels=names, ownerReferences=[owner])
    member["spec"]["nodeName"] = "node-0"
    return member


async def test_the_end_of_a_job_may_be_known_before_its_pods_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobLogPrinter, "_pod_informer", lambda *_: Deaf())
    async with serving(logs=Hello()) as served:
        client, jobs = served.client, resource_of(AITJ)
        await install_crds(client, [AITJ])
        [written] = parse_documents("job.yaml", JOB.encode())
        one = parse_job_object(AITJ, await client.create(jobs, "default", written.value))
        out = io.StringIO()
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            following = tasks.create_task(JobLogPrinter(client, one, EVERYTHING, out).follow(tasks))
            await asyncio.sleep(0.1)  # until it follows; nothing tells when
            await client.create(PODS, "default", member_of(one.uid))
            ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
            status = {"phase": "Succeeded", "containerStatuses": [ended]}
            await client.patch(PODS, "default", "demo-worker-0", {"status": status}, subresource="status")
            memory = dump_state(EngineState(phase=JobPhase.SUCCEED, started_at=served.clock.now()))
            await client.patch(jobs, "default", "demo", {"status": {STATE_FIELD: memory}}, subresource="status")
            await following
        assert out.getvalue() == "worker-0 │ hello\n"
