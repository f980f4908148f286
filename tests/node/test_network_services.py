"""A service's address leads to its pods in turn; without any it refuses; a pod may share the node's network."""

from __future__ import annotations

import asyncio
import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.kube.resources import PODS, SERVICES
from tests.node.conftest import ordinary
from tests.node.running import Running, eventually, is_running, running

SERVE = (
    "import socket; s = socket.create_server(('', 9000), backlog=64); print('up', flush=True)\n"
    "while True:\n"
    "    c = s.accept()[0]\n"
    "    with c: c.send(socket.gethostname().encode()); c.recv(99)"
)
ASK = (
    "import socket, sys\n"
    "def ask():\n"
    "    with socket.create_connection(('web', 80), 5) as c: return c.recv(99).decode()\n"
    "print(*sorted(ask() for _ in range(4)))"
)
REFUSED = (
    "import socket, time; began = time.monotonic()\n"
    "try: socket.create_connection(('web', 80), 5)\n"
    "except ConnectionRefusedError: print('refused', time.monotonic() - began < 1)"
)
ECHO = (
    "import socket; s = socket.create_server(('', 9000)); print('up', flush=True); c = s.accept()[0]; n = 0\n"
    "while data := c.recv(65536): n += len(data)\n"
    "c.sendall(str(n).encode())"
)
MIRROR = (
    "import asyncio\n"
    "async def one(r, w):\n"
    "    while data := await r.read(99): w.write(data)\n"
    "    w.close()\n"
    "async def main():\n"
    "    s = await asyncio.start_server(one, '', 9000, backlog=999)\n"
    "    print('up', flush=True); await s.serve_forever()\n"
    "asyncio.run(main())"
)
CROWD = (
    "import asyncio\n"
    "async def one(gate):\n"
    "    r, w = await asyncio.open_connection('web', 80); w.write(b'x')\n"
    "    gate.release(); await r.readexactly(1); await all_here.wait(); w.close(); return 1\n"
    "async def main():\n"
    "    global all_here; all_here, gate = asyncio.Event(), asyncio.Semaphore(0)\n"
    "    every = [asyncio.create_task(one(gate)) for _ in range(300)]\n"
    "    for _ in every: await gate.acquire()\n"
    "    all_here.set(); print(sum(await asyncio.gather(*every)))\n"
    "asyncio.run(main())"
)
SEND = (
    "import socket\n"
    "c = socket.create_connection(('web', 80), 5); c.sendall(bytes(30_000_000)); c.shutdown(socket.SHUT_WR)\n"
    "print(c.recv(99).decode())"
)


async def test_connections_to_a_service_go_to_its_pods_in_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await _service(cluster)
        for name in ("a", "b"):
            await _backend(cluster, name, SERVE)
        assert await _python(cluster, "asker", ASK) == "a a b b"


async def test_a_service_may_lead_a_client_to_the_same_pod_again(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await _service(cluster, sessionAffinity="ClientIP")
        for name in ("a", "b"):
            await _backend(cluster, name, SERVE)
        first, second = [await _python(cluster, name, ASK) for name in ("one", "two")]
        assert {first, second} == {"a a a a", "b b b b"}


async def test_a_service_without_pods_refuses_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await _service(cluster)
        assert await _python(cluster, "before", REFUSED) == "refused True"
        await _backend(cluster, "a", SERVE)
        assert await _python(cluster, "during", ASK) == "a a a a"
        await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
        await cluster.until_gone("a")
        assert await _python(cluster, "after", REFUSED) == "refused True"


async def test_a_service_carries_much_and_the_end_of_it(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await _service(cluster)
        await _backend(cluster, "a", ECHO)
        assert await _python(cluster, "sender", SEND) == "30000000"


async def test_a_service_carries_many_connections_and_forgets_them(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await _service(cluster)
        await _backend(cluster, "a", MIRROR)
        before = _open_files()
        assert await _python(cluster, "asker", CROWD) == "300"
        await eventually(lambda: _open_files() <= before + 2, what="all are closed")


async def test_a_cluster_with_open_connections_ends_in_good_time(tmp_path: Path) -> None:
    hold = (
        "import socket, time\n"
        "led = socket.create_connection(('web', 80), 5); led.send(b'x'); led.recv(1)\n"
        "asked = socket.create_connection(('10.88.0.1', 3128), 5)\n"
        "asked.send(b'CONNECT web:80 HTTP/1.1\\r\\n\\r\\n'); asked.recv(99)\n"
        "idle = socket.create_connection(('10.88.0.1', 3128), 5)\n"
        "named = socket.create_connection(('10.88.0.1', 53), 5); print('held', flush=True); time.sleep(60)"
    )
    async with asyncio.timeout(30), running(tmp_path) as cluster:
        await _service(cluster)
        await _backend(cluster, "a", MIRROR)
        await cluster.pod("holder", [{"name": "main", "command": ["python3", "-c", hold]}])
        await cluster.until_said("holder", "held")
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 10


async def test_sockets_for_which_there_is_no_room_are_refused_and_the_rest_goes_on(data: Path) -> None:
    async with NodeAgentClient.start(ordinary(data)) as agent:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                await agent.open_socket("stream")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        (await agent.open_socket("stream")).close()


async def test_a_port_that_is_taken_is_told(data: Path) -> None:
    told = re.escape("cannot open a socket at 10.88.0.1:9000: Address already in use")
    async with NodeAgentClient.start(ordinary(data)) as agent:
        with await agent.open_socket("stream", agent.gateway_address, 9000), pytest.raises(OSError, match=told):
            await agent.open_socket("stream", agent.gateway_address, 9000)


async def test_pods_on_the_nodes_network_share_its_address_and_ports(tmp_path: Path) -> None:
    serve = "import socket, time; s = socket.create_server(('', 9000)); print('up', flush=True); time.sleep(60)"
    async with running(tmp_path) as cluster:
        command = ["python3", "-c", serve]
        await cluster.pod("first", [{"name": "main", "command": command}], hostNetwork=True)
        await cluster.until_said("first", "up")
        pod = await cluster.until("first", is_running)
        assert pod["status"]["podIP"] == pod["status"]["hostIP"] == "10.88.0.1"
        await cluster.pod("second", [{"name": "main", "command": command}], hostNetwork=True)
        ended = await cluster.finished("second")
        assert ended["status"]["phase"] == "Failed"
        assert "Address already in use" in await cluster.output("second")
        ask = "import socket; socket.create_connection(('10.88.0.1', 9000), 5); print('reached')"
        assert await _python(cluster, "asker", ask) == "reached"
        named = "import socket; print(socket.gethostbyname('kubernetes.default'))"
        assert await _python(cluster, "named", named, hostNetwork=True) == "10.96.0.1"


async def _service(cluster: Running, **more: Any) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "serve"}], **more}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    await cluster.client.create(SERVICES, "default", body)


async def _backend(cluster: Running, name: str, program: str) -> None:
    ports = [{"name": "serve", "containerPort": 9000}]
    container = {"name": "main", "command": ["python3", "-c", program], "ports": ports}
    await cluster.pod(name, [container], labels={"app": "web"})
    await cluster.until_said(name, "up")


async def _python(cluster: Running, name: str, program: str, **spec: Any) -> str:
    await cluster.pod(name, [{"name": "main", "command": ["python3", "-c", program]}], **spec)
    await cluster.finished(name)
    return (await cluster.output(name)).strip()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
