"""A cluster places and names pods, keeps its word after a restart, and leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pliant.kube.resources import NODES, PODS, SERVICES
from tests.node.conftest import ONLY_PRIVATE
from tests.node.running import Running, is_running, running, state

pytestmark = pytest.mark.usefixtures("network")


async def test_nodes_are_ready_and_have_what_was_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, node_count=2, node_cpu=8, node_memory="16Gi", node_gpu=4) as cluster:
        nodes = (await cluster.client.list(NODES)).items
        assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1"]
        has = nodes[0]["status"]["allocatable"]
        assert (has["cpu"], has["memory"], has["nvidia.com/gpu"]) == ("8", "16Gi", "4")


@ONLY_PRIVATE
async def test_services_are_found_by_name_on_the_same_port(tmp_path: Path) -> None:
    serve = (
        "import socket; s = socket.create_server(('', 2222)); print('up'); "
        "s.accept()[0].send(socket.gethostname().encode())"
    )
    ask = (
        "import socket, sys\n"
        "for name in sys.argv[1:]: print(socket.create_connection((name, 2222), 5).recv(99).decode())"
    )
    async with running(tmp_path) as cluster:
        for name in ("worker-0", "worker-1"):
            await _service(cluster, name, {"index": name})
            await cluster.pod(name, [{"name": "main", "command": ["python3", "-c", serve]}], labels={"index": name})
        for name in ("worker-0", "worker-1"):
            await cluster.until_said(name, "up")
        known = "until getent hosts worker-0.default.svc && getent hosts worker-1; do sleep 0.02; done"
        await cluster.ran("waiter", known)
        command = ["python3", "-c", ask, "worker-0.default.svc.cluster.local", "worker-1"]
        await cluster.pod("asker", [{"name": "main", "command": command}])
        await cluster.finished("asker")
        assert await cluster.output("asker") == "worker-0\nworker-1\n"


async def test_a_pod_without_room_is_told_once_and_placed_when_there_is(tmp_path: Path) -> None:
    needy = {"name": "main", "command": ["sleep", "60"], "resources": {"requests": {"cpu": "3"}}}
    async with running(tmp_path, node_cpu=4) as cluster:
        await cluster.pod("first", [needy])
        await cluster.until("first", is_running)
        await cluster.pod("second", [needy])
        pod = await cluster.until("second", lambda pod: bool(pod["status"].get("conditions")))
        (condition,) = pod["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        await cluster.client.delete(PODS, "default", "first", grace_period_seconds=0)
        await cluster.until("second", is_running)
        assert await cluster.warnings("second") == [("FailedScheduling", condition["message"])]


async def test_pods_spread_over_nodes_by_load_and_keep_to_selectors(tmp_path: Path) -> None:
    light = {"name": "main", "command": ["sleep", "60"], "resources": {"requests": {"cpu": "1"}}}
    async with running(tmp_path, node_count=3, node_cpu=4) as cluster:
        await cluster.client.patch(NODES, None, "node-2", {"spec": {"unschedulable": True}})
        for number in range(4):
            await cluster.pod(f"pod-{number}", [light])
        placed = [(await cluster.until(f"pod-{n}", is_running))["spec"]["nodeName"] for n in range(4)]
        assert sorted(placed) == ["node-0", "node-0", "node-1", "node-1"]
        await cluster.pod("picky", [light], nodeSelector={"kubernetes.io/hostname": "node-1"})
        assert (await cluster.until("picky", is_running))["spec"]["nodeName"] == "node-1"


async def test_a_log_is_followed_to_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        os.mkfifo(tmp_path / "gate")
        await cluster.sh("a", f"echo one; echo two; cat {tmp_path}/gate; echo three")
        await cluster.until("a", is_running)
        heard = []
        async with asyncio.timeout(10):
            async for chunk in cluster.client.stream_logs("default", "a", follow=True):
                heard.append(chunk)
                if b"".join(heard) == b"one\ntwo\n":
                    await asyncio.to_thread((tmp_path / "gate").write_text, "open\n")
        assert b"".join(heard) == b"one\ntwo\nopen\nthree\n"
        assert await cluster.output("a", tail_lines=2) == "open\nthree\n"
        assert await cluster.output("a", tail_lines=99) == "one\ntwo\nopen\nthree\n"


async def test_pods_of_a_cluster_that_ended_have_failed_or_start_again(tmp_path: Path) -> None:
    async with running(tmp_path, durable=True) as cluster:
        await cluster.sh("once", "sleep 60")
        await cluster.sh("always", "sleep 60", restartPolicy="Always")
        for name in ("once", "always"):
            await cluster.until(name, is_running)
    async with running(tmp_path, durable=True) as cluster:
        pod = await cluster.finished("once")
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "NodeRestarted")
        assert state(pod)["terminated"]["exitCode"] == 137
        pod = await cluster.until("always", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
        assert is_running(pod)
        assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "NodeRestarted"


async def test_a_cluster_with_fewer_nodes_lets_go_of_the_others(tmp_path: Path) -> None:
    async with running(tmp_path, durable=True, node_count=2) as cluster:
        await cluster.sh("a", "sleep 60", nodeSelector={"kubernetes.io/hostname": "node-1"})
        await cluster.until("a", is_running)
    async with running(tmp_path, durable=True) as cluster:
        await cluster.until_gone("a")
        assert [node["metadata"]["name"] for node in (await cluster.client.list(NODES)).items] == ["node-0"]


async def test_nothing_runs_when_a_cluster_has_ended(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.sh("a", "trap '' TERM; (setsid sleep 600 &); sleep 600")
        await cluster.until("a", is_running)
        agent = _agent_below(os.getpid())
        handle = os.pidfd_open(agent)
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(handle, 0)
    os.close(handle)


async def _service(cluster: Running, name: str, selector: dict[str, str]) -> None:
    spec = {"clusterIP": "None", "selector": selector, "ports": [{"port": 2222}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    await cluster.client.create(SERVICES, "default", body)


def _agent_below(parent: int) -> int:
    """The process id of the only agent that this process has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    (agent,) = (int(child) for child in children if b"agent.__main__" in Path(f"/proc/{child}/cmdline").read_bytes())
    return agent
