"""Ephemeral containers are added to running pods, run once, and end with their pod."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from tests.node.conftest import ONLY_PRIVATE, Node
from tests.node.running import Pod, Running, is_running, running


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_an_ephemeral_container_runs_once_beside_the_others(cluster: Running) -> None:
    await cluster.sh("a", "sleep 60")
    await cluster.until("a", is_running)
    await add(cluster, "a", "first", "echo hello; exit 3")
    pod = await ended(cluster, "first")
    assert state_of(pod, "first")["terminated"]["exitCode"] == 3
    assert pod["status"]["phase"] == "Running"
    assert await cluster.output("a", container="first") == "hello\n"
    await add(cluster, "a", "second", "sleep 60")
    pod = await cluster.until("a", lambda pod: "running" in state_of(pod, "second"))
    assert [each["restartCount"] for each in pod["status"]["ephemeralContainerStatuses"]] == [0, 0]


@ONLY_PRIVATE
async def test_an_ephemeral_container_sees_the_processes_of_its_target(cluster: Running) -> None:
    await cluster.sh("a", "exec sleep 61")
    await cluster.until("a", is_running)
    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; hostname"
    await add(cluster, "a", "beside", script, targetContainerName="main")
    await add(cluster, "a", "alone", script)
    for name, sees_target in (("beside", True), ("alone", False)):
        await ended(cluster, name)
        output = await cluster.output("a", container=name)
        assert ("sleep 61" in output) is sees_target
        assert output.endswith("a\n")


async def test_a_pod_ends_without_its_ephemeral_containers_and_takes_them_along(cluster: Running) -> None:
    await cluster.sh("a", "sleep 1", terminationGracePeriodSeconds=1)
    await cluster.until("a", is_running)
    await add(cluster, "a", "stubborn", "trap '' TERM; while true; do sleep 1; done")
    await add(cluster, "a", "beside", "sleep 60", targetContainerName="main")
    pod = await cluster.finished("a")
    pod = await ended(cluster, "stubborn")
    assert pod["status"]["phase"] == "Succeeded"
    assert state_of(pod, "stubborn")["terminated"]["exitCode"] == 137


async def test_an_ephemeral_container_that_cannot_start_says_why(cluster: Running) -> None:
    await cluster.sh("a", "sleep 60")
    await cluster.until("a", is_running)
    await add(cluster, "a", "image", "")
    pod = await ended(cluster, "image")
    problem = "spec.ephemeralContainers: set `command` of container 'image'; this cluster does not run images"
    assert state_of(pod, "image")["terminated"]["reason"] == "StartError"
    assert state_of(pod, "image")["terminated"]["message"] == problem
    assert ("Failed", f'Error: failed to start container "image": {problem}') in await cluster.warnings("a")


@ONLY_PRIVATE
async def test_stopping_a_pod_stops_only_its_own_processes(agent: Node) -> None:
    await agent.agent.create_pod("other", "other")
    await agent.agent.start_container("pod", "main", agent.command("sleep", "60"))
    beside = agent.command("sh", "-c", "while echo x; do sleep 0.02; done")
    beside["target_run"] = "main"
    await agent.agent.start_container("pod", "beside", beside)
    await agent.agent.start_container("other", "main", agent.command("sleep", "60"))
    agent.agent.signal_pod("pod", signal.SIGSTOP)
    assert await agent.agent.is_responsive(5), "the agent itself is not stopped"
    agent.agent.signal_pod("pod", signal.SIGCONT)
    ending = await agent.agent.start_container("other", "more", agent.command("true"))
    assert (await asyncio.wait_for(ending, 5)).code == 0


@ONLY_PRIVATE
async def test_the_end_of_the_target_ends_the_ephemeral_container(agent: Node) -> None:
    main = await agent.agent.start_container("pod", "main", agent.command("sleep", "0.2"))
    config = agent.command("sleep", "60")
    config["target_run"] = "main"
    beside = await agent.agent.start_container("pod", "beside", config)
    assert (await asyncio.wait_for(main, 5)).code == 0
    assert (await asyncio.wait_for(beside, 5)).code == 137


async def add(cluster: Running, pod: str, name: str, script: str, **fields: Any) -> None:
    """Add an ephemeral container to a pod, as `kubectl debug` does."""
    container = {"name": name, "image": "none", "command": ["sh", "-c", script] if script else [], **fields}
    patch = {"spec": {"ephemeralContainers": [container]}}
    await cluster.client.patch(
        PODS, "default", pod, patch, subresource="ephemeralcontainers", content_type=STRATEGIC_MERGE_PATCH
    )


async def ended(cluster: Running, container: str) -> Pod:
    """Return the pod when one of its ephemeral containers has ended."""
    return await cluster.until("a", lambda pod: "terminated" in state_of(pod, container))


def state_of(pod: Pod, container: str) -> dict[str, Any]:
    """Return the state of an ephemeral container, once it is known."""
    statuses = pod["status"].get("ephemeralContainerStatuses") or ()
    return next((each["state"] for each in statuses if each["name"] == container), {})
