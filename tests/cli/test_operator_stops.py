"""An operator that is told to stop finishes what is under way, but does not wait for ever."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pliant.embedded.apiserver.auth.users import ADMIN_USER
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.resources import CRDS, PODS
from pliant.kube.transport.base import Reply, Request, StreamReply
from tests.embedded.serving import Reachable, Served, reachable, serving
from tests.faults.rig import JOBS
from tests.faults.scenarios import group

LIMIT = 20.0
"""Seconds for all of it: five are for work under way, the rest is for a slow machine."""
JOB = {
    "apiVersion": JOBS.api_version,
    "kind": JOBS.kind,
    "metadata": {"name": "bert", "namespace": "default"},
    "spec": {"replicaSpecs": {"worker": group(3)}},
}


class SlowPods:
    """Lets the creation of pods take as long as a test wants."""

    def __init__(self, served: Served) -> None:
        self._handle = served.api.handle
        self.asked = asyncio.Event()
        self.may_go = asyncio.Event()
        served.api.handle = self.handle  # type: ignore[method-assign]

    async def handle(self, request: Request, user: Mapping[str, Any] = ADMIN_USER) -> Reply | StreamReply:
        if (request.method, request.path) == ("POST", "/api/v1/namespaces/default/pods"):
            self.asked.set()
            await self.may_go.wait()
        return await self._handle(request, user)


@asynccontextmanager
async def operating(server: Reachable) -> AsyncIterator[asyncio.subprocess.Process]:
    """An operator as a process, of which nothing is left afterwards."""
    command = (sys.executable, "-m", "pliant", "operator", "--kubeconfig", str(server.kubeconfig))
    process = await asyncio.create_subprocess_exec(*command, "--log-format", "json", stderr=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def last_words(process: asyncio.subprocess.Process) -> list[dict[str, Any]]:
    """Every record the operator wrote, when it has ended."""
    _, text = await process.communicate()
    return [json.loads(line) for line in text.splitlines()]


@asynccontextmanager
async def interrupted(tmp_path: Path) -> AsyncIterator[tuple[Served, SlowPods, asyncio.subprocess.Process]]:
    """An operator that was told to stop while it waits for its pods to be created."""
    async with serving() as served, reachable(served.api, tmp_path) as server:
        await served.client.create(CRDS, None, AITrainingJobFrontend().crd())
        await served.client.create(JOBS, "default", JOB)
        slow = SlowPods(served)
        async with asyncio.timeout(3 * LIMIT), operating(server) as process:
            await slow.asked.wait()
            process.send_signal(signal.SIGTERM)
            try:
                yield served, slow, process
            finally:
                slow.may_go.set()


async def test_writes_under_way_are_finished(tmp_path: Path) -> None:
    async with interrupted(tmp_path) as (served, slow, process):
        asyncio.get_running_loop().call_later(1.0, slow.may_go.set)
        records = await last_words(process)
        assert process.returncode == 0
        assert (records[-1]["message"], records[-1]["reason"]) == ("operator stopped", "SIGTERM")
        assert len((await served.client.list(PODS, "default")).items) == 3
        told = await served.client.get(JOBS, "default", "bert")
        assert told["status"]["phase"], "the pass came to its end"


async def test_a_server_that_never_answers_does_not_keep_an_operator_alive(tmp_path: Path) -> None:
    async with interrupted(tmp_path) as (_, _, process):
        began = asyncio.get_running_loop().time()
        records = await last_words(process)
        assert asyncio.get_running_loop().time() - began < LIMIT
        assert process.returncode == 0
        assert (records[-1]["message"], records[-1]["reason"]) == ("operator stopped", "SIGTERM")
