"""What containers do right after their start and right before their end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import PODS
from tests.node.running import Running, is_running, running, state


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_container_runs_only_after_its_greeting(cluster: Running, tmp_path: Path) -> None:
    hook = {"exec": {"command": ["sh", "-c", f"sleep 0.3; touch {tmp_path}/greeted"]}}
    await _pod(cluster, "sleep 60", postStart=hook)
    await cluster.until("a", is_running)
    assert (tmp_path / "greeted").exists()


async def test_a_container_whose_greeting_fails_is_stopped(cluster: Running) -> None:
    await _pod(cluster, "sleep 60", postStart={"exec": {"command": ["sh", "-c", "echo no luck; exit 2"]}})
    pod = await cluster.finished("a")
    assert (pod["status"]["phase"], state(pod)["terminated"]["exitCode"]) == ("Failed", 143)
    assert await cluster.warnings("a") == [("FailedPostStartHook", "PostStartHook failed: no luck")]


async def test_a_container_that_ends_during_its_greeting_has_ended(cluster: Running) -> None:
    await _pod(cluster, "exit 4", grace=61, postStart={"sleep": {"seconds": 60}})
    assert state(await cluster.finished("a"))["terminated"]["exitCode"] == 4


async def test_a_container_may_prepare_its_leave(cluster: Running, tmp_path: Path) -> None:
    hook = {"exec": {"command": ["sh", "-c", f"echo hook >> {tmp_path}/order"]}}
    await _pod(cluster, f"trap 'echo term >> {tmp_path}/order; exit 0' TERM; echo up; sleep 60 & wait", preStop=hook)
    await cluster.until_said("a", "up")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=4)
    assert (tmp_path / "order").read_text().split() == ["hook", "term"]


async def test_a_container_may_linger_before_it_leaves(cluster: Running) -> None:
    await _pod(cluster, "sleep 60", preStop={"sleep": {"seconds": 1}})
    await cluster.until("a", is_running)
    began = time.monotonic()
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a")
    assert 1 <= time.monotonic() - began < 4


async def test_preparing_to_leave_takes_no_longer_than_the_grace_period(cluster: Running) -> None:
    await _pod(cluster, "sleep 60", preStop={"exec": {"command": ["sleep", "60"]}})
    await cluster.until("a", is_running)
    await cluster.client.delete(PODS, "default", "a", grace_period_seconds=1)
    await cluster.until_gone("a", within=4)


async def test_a_hook_that_fails_does_not_keep_a_container(cluster: Running) -> None:
    await _pod(cluster, "sleep 60", preStop={"httpGet": {"port": 80}})
    pod = await cluster.until("a", is_running)
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=4)
    url = f"http://{pod['status']['podIP']}:80/"
    ((reason, message),) = await cluster.warnings("a")
    assert reason == "FailedPreStopHook"
    assert message.startswith(f'PreStopHook failed: Get "{url}": dial tcp')


async def _pod(cluster: Running, script: str, *, grace: int = 5, **hooks: Any) -> None:
    main = {"name": "main", "command": ["sh", "-c", script], "lifecycle": hooks}
    await cluster.pod("a", [main], terminationGracePeriodSeconds=grace)
