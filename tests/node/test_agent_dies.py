"""A cluster whose node agent dies has another one soon, and its nodes fare as machines that were switched off."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest

from pliant.embedded import agent_supervisor
from pliant.embedded.fault_annotations import OUTAGE_VALUE_PAUSED
from pliant.embedded.kubelet.runtime import agent_process
from pliant.embedded.kubelet.runtime.messages import AgentLost
from pliant.kube.resources import NODES, PODS, SERVICES
from tests.node.running import Pod, Running, is_running, running
from tests.node.test_chaos import strike, until_ready

STUBBORN = "trap '' TERM HUP INT; (setsid sh -c 'setsid sleep 600 & sleep 600' &); echo up; sleep 600"


def outer() -> int:
    """The agent's process that we have started."""
    (found,) = agents()
    return found


def inner() -> int:
    """The one below it, first in namespaces of its own."""
    return int(children(outer())[0])


def agents() -> list[int]:
    return [
        int(each) for each in children(os.getpid()) if b"agent.__main__" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def children(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def below(process: int) -> list[int]:
    return [each for child in children(process) for each in (int(child), *below(int(child)))]


def is_gone(process: int) -> bool:
    """Whether nothing of a process is left, but perhaps its exit code for whoever adopted it."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until_node(cluster: Running, ready: str) -> None:
    """Return when the node is as ready as that."""

    def is_so(node: Pod) -> bool:
        told = node["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == ready for each in told)

    async with asyncio.timeout(25):
        listing = await cluster.client.list(NODES)
        if is_so(listing.items[0]):
            return
        watch = cluster.client.watch(NODES, resource_version=listing.resource_version)
        async with aclosing(watch):
            async for event in watch:
                if event.object is not None and is_so(event.object):
                    return


@pytest.mark.parametrize("victim", [outer, inner])
async def test_an_agent_that_is_killed_is_followed_by_another(tmp_path: Path, victim: Callable[[], int]) -> None:
    async with running(tmp_path) as cluster:
        await cluster.sh("once", STUBBORN)
        await cluster.sh("always", STUBBORN, restartPolicy="Always")
        for name in ("once", "always"):
            await cluster.until_said(name, "up")
        everything = [outer(), *below(outer())]
        os.kill(victim(), signal.SIGKILL)
        lost = await cluster.finished("once")
        assert (lost["status"]["phase"], lost["status"]["reason"]) == ("Failed", "NodeRestarted")
        await cluster.until("always", partial(_has_restarted, times=1))
        assert all(is_gone(each) for each in everything)
        assert len(agents()) == 1


async def test_names_services_and_the_api_are_there_for_pods_of_the_next_agent(tmp_path: Path) -> None:
    serve = "cd $(mktemp -d); exec python3 -m http.server 8000"
    ask = "until curl -sS -m 2 http://web/ 2>/dev/null | grep -q Directory; do sleep 0.05; done; echo found"
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    look = f"curl -sS --cacert {account}/ca.crt https://kubernetes.default/healthz"
    async with running(tmp_path) as cluster:
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        await cluster.client.create(SERVICES, "default", body)
        await cluster.sh("web", serve, labels={"app": "web"}, restartPolicy="Always")
        assert await cluster.ran("before", f"{ask}; {look}") == "found\nok"
        for times in (1, 2):
            os.kill(inner(), signal.SIGKILL)
            await cluster.until("web", partial(_has_restarted, times=times))
        assert await cluster.ran("after", f"{ask}; {look}") == "found\nok"


async def test_a_node_without_an_agent_is_not_ready_until_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as cluster:
        await cluster.sh("a", "sleep 600", restartPolicy="Always")
        await cluster.until("a", is_running)
        monkeypatch.setattr(agent_process, "_START_CODE", "raise SystemExit(1)")
        os.kill(outer(), signal.SIGKILL)
        await until_node(cluster, "Unknown")
        await cluster.until("a", lambda pod: not _is_ready(pod))
        await cluster.sh("b", "true")  # must wait
        monkeypatch.undo()
        await until_node(cluster, "True")
        await cluster.finished("b")
        await cluster.until("a", _is_ready)


async def test_a_node_that_was_paused_when_its_agent_died_comes_back_when_it_is_healed(tmp_path: Path) -> None:
    async with running(tmp_path, node_count=2) as cluster:
        for node in ("node-0", "node-1"):
            await cluster.sh(node, "sleep 600", restartPolicy="Always", nodeName=node)
            await cluster.until(node, is_running)
        await strike(cluster, "node-0", OUTAGE_VALUE_PAUSED)
        await until_ready(cluster, "node-0", "Unknown")
        os.kill(inner(), signal.SIGKILL)
        await cluster.until("node-1", partial(_has_restarted, times=1))
        assert not _has_restarted(await cluster.client.get(PODS, "default", "node-0"), times=1)
        await strike(cluster, "node-0", None)
        await cluster.until("node-0", partial(_has_restarted, times=1))
        await until_ready(cluster, "node-0", "True")


async def test_an_agent_that_cannot_be_started_again_ends_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agent_supervisor, "INITIAL_RESTART_BACKOFF_SECONDS", 0.01)

    async def lose_it() -> None:
        async with asyncio.timeout(20), running(tmp_path):
            monkeypatch.setattr(agent_process, "_START_CODE", "raise SystemExit(1)")
            os.kill(outer(), signal.SIGKILL)
            await asyncio.Event().wait()

    with pytest.raises(AgentLost, match="the node agent exited, and all pods with it; 6 restarts in a row failed"):
        await lose_it()
    errors = [vars(each)["error"] for each in caplog.records if each.getMessage() == "node agent not started"]
    assert errors == ["the node agent exited before it was ready"] * 6


def _has_restarted(pod: Pod, times: int) -> bool:
    told = pod["status"].get("containerStatuses")
    return is_running(pod) and bool(told) and told[0]["restartCount"] == times and "running" in told[0]["state"]


def _is_ready(pod: Pod) -> bool:
    told = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in told)
