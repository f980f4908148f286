"""Nodes that are killed, paused or deleted fail as machines do, and come back as machines do."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.controllers import node_lifecycle
from pliant.embedded.fault_annotations import NODE_OUTAGE_ANNOTATION, OUTAGE_VALUE_KILLED, OUTAGE_VALUE_PAUSED
from pliant.embedded.kubelet.runtime.messages import AgentLost
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.kube.codec import WatchEventType
from pliant.kube.resources import NODES, PODS
from tests.node.conftest import ordinary
from tests.node.running import Running, eventually, is_running, running, state
from tests.scenarios.host import descendants

pytestmark = pytest.mark.usefixtures("network")

STAY = "trap 'exit 0' TERM; while :; do date +%s%N > {}; sleep 0.05; done"


async def strike(cluster: Running, node: str, how: str | None) -> None:
    """Say how a node is to fail; None heals it."""
    await cluster.client.patch(NODES, None, node, {"metadata": {"annotations": {NODE_OUTAGE_ANNOTATION: how}}})


async def until_ready(cluster: Running, name: str, status: str) -> None:
    """Wait until a node says that it is ready, or that nobody knows."""

    def fits(node: dict[str, Any]) -> bool:
        conditions = node.get("status", {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == status for each in conditions)

    listing = await cluster.client.list(NODES, fields=f"metadata.name={name}")
    if any(fits(node) for node in listing.items):
        return
    watch = cluster.client.watch(NODES, resource_version=listing.resource_version, fields=f"metadata.name={name}")
    async with asyncio.timeout(15), aclosing(watch):
        async for change in watch:
            if change.type is not WatchEventType.DELETED and change.object is not None and fits(change.object):
                return


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod is told to be ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


async def stands_still(clock: Path) -> None:
    """Wait until a file has not changed for a while."""
    seen = ""
    async with asyncio.timeout(10):
        while (now := clock.read_text()) != seen:
            seen = now
            await asyncio.sleep(0.5)


async def goes_on(clock: Path) -> None:
    """Wait until a file changes."""
    seen = clock.read_text()
    await eventually(lambda: clock.read_text() not in ("", seen), what=f"{clock} changes")


async def test_a_killed_node_is_silent_until_it_is_healed(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    async with running(tmp_path, node_count=2) as cluster:
        for name, policy in (("never", "Never"), ("always", "Always")):
            await cluster.sh(name, STAY.format(clock), nodeName="node-1", restartPolicy=policy)
        for name in ("never", "always"):
            await cluster.until(name, is_running)
        await eventually(clock.exists, what="the clock runs")
        await strike(cluster, "node-1", OUTAGE_VALUE_KILLED)
        await stands_still(clock)
        await until_ready(cluster, "node-1", "Unknown")
        await until_ready(cluster, "node-0", "True")
        for name in ("never", "always"):
            pod = await cluster.until(name, lambda pod: not is_ready(pod))
            assert is_running(pod)
        await cluster.sh("late", "true", nodeName="node-1")
        await strike(cluster, "node-1", None)
        await until_ready(cluster, "node-1", "True")
        pod = await cluster.finished("never")
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "NodeRestarted")
        await cluster.until("always", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
        await goes_on(clock)
        await cluster.finished("late")


async def test_nobody_confirms_deletions_of_a_killed_node_and_forced_ones_are_done_with_later(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        for name in ("asked", "forced"):
            await cluster.sh(name, "exec sleep 60")
            await cluster.until(name, is_running)
        await strike(cluster, "node-0", OUTAGE_VALUE_KILLED)
        await until_ready(cluster, "node-0", "Unknown")
        await cluster.client.delete(PODS, "default", "asked", grace_period_seconds=1)
        await cluster.client.delete(PODS, "default", "forced", grace_period_seconds=0)
        await cluster.until_gone("forced")
        await asyncio.sleep(1.5)  # longer than its grace
        pod = await cluster.client.get(PODS, "default", "asked")
        assert pod["metadata"]["deletionTimestamp"]
        await strike(cluster, "node-0", None)
        await cluster.until_gone("asked")
        folders = tmp_path / "cluster" / "pods"
        await eventually(lambda: not list(folders.iterdir()), what="nothing is left of both")


async def test_processes_of_a_paused_node_stand_still_and_go_on(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    async with running(tmp_path) as cluster:
        await cluster.sh("a", STAY.format(clock))
        before = await cluster.until("a", is_running)
        await eventually(clock.exists, what="the clock runs")
        await strike(cluster, "node-0", OUTAGE_VALUE_PAUSED)
        await stands_still(clock)
        await until_ready(cluster, "node-0", "Unknown")
        await strike(cluster, "node-0", None)
        await goes_on(clock)
        await until_ready(cluster, "node-0", "True")
        after = await cluster.until("a", is_ready)
        assert state(after) == state(before)
        await cluster.client.delete(PODS, "default", "a")
        await cluster.until_gone("a")


async def test_nobody_is_blamed_for_standing_still(tmp_path: Path) -> None:
    probe = {"httpGet": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 2}
    server = {"name": "main", "command": ["python3", "-m", "http.server", "8000"], "livenessProbe": probe}
    async with running(tmp_path) as cluster:
        await cluster.pod("a", [{**server, "startupProbe": {**probe, "failureThreshold": 30}}], restartPolicy="Always")
        await cluster.until("a", lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("started") is True)
        await strike(cluster, "node-0", OUTAGE_VALUE_PAUSED)
        await until_ready(cluster, "node-0", "Unknown")
        await strike(cluster, "node-0", None)
        await until_ready(cluster, "node-0", "True")
        await asyncio.sleep(2.5)  # longer than two failures need
        pod = await cluster.client.get(PODS, "default", "a")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_an_agent_that_does_not_answer_for_long_loses_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lifecycle, "NODE_HEARTBEAT_TIMEOUT_SECONDS", 4.0)
    others = set(descendants(os.getpid()))
    async with running(tmp_path, node_count=2) as cluster:
        await cluster.sh("before", "exec sleep 60")
        await cluster.until("before", is_ready)
        agents = [process for process in descendants(os.getpid()) if process not in others]
        for process in agents:
            os.kill(process, signal.SIGSTOP)
        try:
            for node in ("node-0", "node-1"):
                await until_ready(cluster, node, "Unknown")
        finally:
            for process in agents:
                os.kill(process, signal.SIGCONT)
        for node in ("node-0", "node-1"):
            await until_ready(cluster, node, "True")
        await cluster.until("before", is_ready)
        assert await cluster.ran("after", "echo up") == "up"


async def test_an_agent_that_is_busy_is_heard_and_one_that_is_gone_is_not(data: Path) -> None:
    async with NodeAgentClient.start(ordinary(data)) as agent:
        assert await agent.is_responsive(5)
        busy = [asyncio.create_task(agent.create_pod(f"pod-{number}", "a")) for number in range(200)]
        await asyncio.sleep(0)
        # Its answer to this comes after all the others, which are signs of life as well.
        assert await agent.is_responsive(0.1)
        await asyncio.gather(*busy)
        assert await agent.is_responsive(5)
        inner = [agent.pid, *descendants(agent.pid)][:2][-1]
        os.kill(inner, signal.SIGSTOP)
        assert not await agent.is_responsive(0.1)
        os.kill(inner, signal.SIGKILL)
        with pytest.raises(AgentLost):
            await agent.raise_when_lost()
        assert not await agent.is_responsive(0.1)


@pytest.mark.parametrize("how", [None, OUTAGE_VALUE_KILLED])
async def test_a_node_that_was_deleted_comes_back_with_all_it_had(tmp_path: Path, how: str | None) -> None:
    async with running(tmp_path, node_gpu=2) as cluster:
        had = (await cluster.client.get(NODES, None, "node-0"))["status"]["allocatable"]
        if how:
            await strike(cluster, "node-0", how)
        await cluster.client.delete(NODES, None, "node-0")
        await cluster.sh("a", "true")
        pod = await cluster.until("a", lambda pod: bool(pod["status"].get("conditions")))
        assert pod["status"]["conditions"][0]["message"] == "no nodes available to schedule pods"
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}
        await cluster.client.create(NODES, None, body)
        await cluster.finished("a")
        node = await cluster.client.get(NODES, None, "node-0")
        assert node["status"]["allocatable"] == had
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0"
