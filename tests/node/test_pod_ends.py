"""However a container ends, it is told as it was, and what follows is what Kubernetes does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pliant.embedded.kubelet.pods import container_runner
from pliant.embedded.kubelet.runtime.messages import ContainerExit
from pliant.kube.resources import PODS
from tests.node.conftest import Node
from tests.node.running import Pod, Running, running, state


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 130, 137, 143, 254, 255])
async def test_every_exit_code_is_told(agent: Node, code: int) -> None:
    assert await (
        await agent.agent.start_container("pod", "a", agent.command("sh", "-c", f"exit {code}"))
    ) == ContainerExit(code)


@pytest.mark.parametrize(("name", "number"), [("HUP", 1), ("ABRT", 6), ("KILL", 9), ("SEGV", 11), ("TERM", 15)])
async def test_every_signal_is_told(agent: Node, name: str, number: int) -> None:
    ending = await agent.agent.start_container("pod", "a", agent.command("sh", "-c", f"kill -{name} $$"))
    assert await ending == ContainerExit(128 + number, number)


async def test_a_container_in_a_crash_loop_waits_longer_and_longer(
    cluster: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_runner, "_INITIAL_BACKOFF", 1.0)
    monkeypatch.setattr(container_runner, "_MAX_BACKOFF", 2.0)
    waits: list[str] = []

    def note(pod: Pod) -> bool:
        waiting = state(pod).get("waiting", {})
        if waiting.get("reason") == "CrashLoopBackOff":
            waits.append(waiting["message"].split()[1])
        return len(waits) == 3

    await cluster.sh("a", "exit 1", restartPolicy="Always")
    pod = await cluster.until("a", note)
    assert waits == ["1s", "2s", "2s"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 3
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=5)


async def test_a_container_that_ends_well_is_restarted_where_it_always_is(cluster: Running) -> None:
    await cluster.sh("a", "exit 0", restartPolicy="Always")
    pod = await cluster.until("a", lambda pod: "waiting" in state(pod) and _restarts(pod) == 1)
    assert state(pod)["waiting"]["reason"] == "CrashLoopBackOff"
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "Completed"


async def test_a_pod_without_a_grace_period_is_killed_at_once(cluster: Running) -> None:
    await cluster.sh("a", "trap '' TERM; echo up; sleep 60; sleep 60", terminationGracePeriodSeconds=0)
    await cluster.until_said("a", "up")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=3)


async def test_a_container_that_stands_still_is_killed_all_the_same(cluster: Running) -> None:
    await cluster.sh("a", "echo up; kill -STOP $$$$; echo never", terminationGracePeriodSeconds=1)
    await cluster.until_said("a", "up")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=5)


async def test_what_a_container_leaves_running_does_not_outlive_it(cluster: Running) -> None:
    await cluster.sh("a", "(setsid sleep 61 >/dev/null 2>&1 &); (setsid sleep 62 &); echo done")
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Succeeded"
    assert await cluster.output("a") == "done\n"


def _restarts(pod: Pod) -> int:
    told = pod["status"].get("containerStatuses")
    return int(told[0]["restartCount"]) if told else 0
