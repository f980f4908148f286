"""An agent that is stopped for a while costs no job, and no probe of its pods."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pliant.controllers.operator import Operator
from pliant.embedded.controllers import node_lifecycle
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.resources import CRDS, NODES, PODS, Resource
from pliant.model.operator_config import OperatorConfig
from pliant.runtime.clock import SystemClock
from tests.controllers.operated import operating
from tests.node.running import Running, running
from tests.node.test_agent_dies import below, outer

pytestmark = pytest.mark.usefixtures("network")

KIND = AITrainingJobFrontend()
JOBS = Resource(KIND.group, KIND.version, KIND.plural, KIND.kind)
GRACE = timedelta(seconds=0.5)


@asynccontextmanager
async def running_job(folder: Path, config: OperatorConfig) -> AsyncIterator[Running]:
    """A cluster with an operator, and a job of one worker that runs, is probed and is not restarted."""
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1}
    serve = "import os, socket, time; s = socket.create_server((os.environ['IP'], 8000)); print('up'); time.sleep(600)"
    address = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    command = {"command": ["python3", "-c", serve], "env": [address], "livenessProbe": probe}
    container = {"name": "main", "image": "none", **command}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}}
    manifest = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"replicaSpecs": {"worker": worker}},
    }
    async with running(folder) as cluster:
        await cluster.client.create(CRDS, None, KIND.crd())
        async with operating(Operator(cluster.client, SystemClock(), frontends=[KIND], config=config)):
            await cluster.client.create(JOBS, "default", manifest)
            await until_running(cluster)
            await cluster.until_said("demo-worker-0", "up")
            yield cluster


@contextmanager
def stopped_agent() -> Iterator[None]:
    """The agent, both its processes, stands still; its pods do not."""
    processes = [outer(), below(outer())[0]]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


async def facts(cluster: Running) -> dict[str, Any]:
    """What must not change: the phase of the job, its pod, and whether the node is ready."""
    job = await cluster.client.get(JOBS, "default", "demo")
    pods = (await cluster.client.list(PODS, "default")).items
    node = (await cluster.client.list(NODES)).items[0]
    return {
        "phase": job["status"]["phase"],
        "pods": [(pod["metadata"]["uid"], pod["status"]["phase"]) for pod in pods],
        "restarts": [each["restartCount"] for pod in pods for each in pod["status"]["containerStatuses"]],
        "ready": [each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready"],
    }


async def assert_nothing_is_lost(cluster: Running, stop_for: float) -> None:
    before = await facts(cluster)
    assert (before["phase"], before["ready"]) == ("Running", ["True"])
    with stopped_agent():
        await asyncio.sleep(stop_for)
        assert await facts(cluster) == before
    await asyncio.sleep(2)
    assert await facts(cluster) == before
    assert await cluster.ran("after", "echo up") == "up"


async def until_running(cluster: Running) -> None:
    async with asyncio.timeout(30), aclosing(cluster.client.watch(JOBS, resource_version="0")) as changes:
        async for change in changes:
            if change.object is not None and change.object.get("status", {}).get("phase") == "Running":
                return


async def test_a_job_survives_an_agent_that_is_stopped_for_longer_than_a_dead_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lifecycle, "HEARTBEAT_INTERVAL_SECONDS", 0.2)
    monkeypatch.setattr(node_lifecycle, "NODE_OUTAGE_TIMEOUT_SECONDS", 0.4)
    async with running_job(tmp_path, OperatorConfig(node_grace_period=GRACE)) as cluster:
        await assert_nothing_is_lost(cluster, stop_for=2.5)


@pytest.mark.deep
async def test_a_job_survives_an_agent_that_is_stopped_for_half_a_minute(tmp_path: Path) -> None:
    async with running_job(tmp_path, OperatorConfig()) as cluster:
        await assert_nothing_is_lost(cluster, stop_for=30)
