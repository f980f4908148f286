"""Containers are asked how they are, and what they answer has consequences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import SERVICES
from tests.node.conftest import ONLY_PRIVATE
from tests.node.running import Pod, Running, is_running, running, state

QUICK: dict[str, Any] = {"periodSeconds": 1, "failureThreshold": 1}
SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/good" and self.headers["X-Who"] == "me" else 503)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer((os.environ.get("POD_IP", "0.0.0.0"), 8080), Handler).serve_forever()
"""

GRPC = """
import os, pathlib, socket, threading
def frame(kind, flags, stream, content):
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content
def serve(c):
    heard = b""
    while b"train" not in heard: heard += c.recv(4096)
    assert heard.startswith(b"PRI * HTTP/2.0") and b"/grpc.health.v1.Health/Check" in heard
    state = 1 if pathlib.Path("{ready}").exists() else 2
    c.sendall(frame(4, 0, 0, b"") + frame(6, 0, 0, bytes(8)) + frame(1, 4, 1, bytes((0x88,))))
    message = bytes((8, state))
    c.sendall(frame(0, 8, 1, bytes((3,)) + bytes((0, 0, 0, 0, len(message))) + message + bytes(3)))
    c.sendall(frame(1, 5, 1, bytes((0, 11)) + b"grpc-status" + bytes((1,)) + b"0"))
    c.recv(4096)
listener = socket.create_server((os.environ.get("POD_IP", "0.0.0.0"), 50051))
while True: threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_pod_is_ready_when_its_probe_says_so_and_no_longer(cluster: Running, tmp_path: Path) -> None:
    probe = {"exec": {"command": ["test", "-e", str(tmp_path / "ready")]}, **QUICK}
    await _pod(cluster, "a", ["sleep", "60"], readinessProbe=probe)
    pod = await cluster.until("a", is_running)
    assert not _is_ready(pod)
    condition = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    assert condition["message"] == "containers with unready status: [main]"
    (tmp_path / "ready").touch()
    await cluster.until("a", _is_ready)
    (tmp_path / "ready").unlink()
    pod = await cluster.until("a", lambda pod: not _is_ready(pod))
    assert (pod["status"]["phase"], _restarts(pod)) == ("Running", 0)


@ONLY_PRIVATE
async def test_a_service_stands_for_a_pod_while_its_probe_says_so(cluster: Running, tmp_path: Path) -> None:
    service = {"metadata": {"name": "svc"}, "spec": {"clusterIP": "None", "selector": {"app": "a"}}}
    await cluster.client.create(SERVICES, "default", {"apiVersion": "v1", "kind": "Service", **service})
    probe = {"exec": {"command": ["test", "-e", str(tmp_path / "ready")]}, **QUICK}
    await _pod(cluster, "a", ["sleep", "60"], readinessProbe=probe)
    (tmp_path / "ready").touch()
    await cluster.ran("b", "until getent hosts svc; do sleep 0.1; done")
    (tmp_path / "ready").unlink()
    await cluster.ran("c", "while getent hosts svc; do sleep 0.1; done")


async def test_a_container_that_no_longer_lives_is_restarted(cluster: Running, tmp_path: Path) -> None:
    (tmp_path / "alive").touch()
    probe = {"exec": {"command": ["sh", "-c", f"test -e {tmp_path}/alive || (echo dead; false)"]}, **QUICK}
    script = f"touch {tmp_path}/alive; trap 'exit 0' TERM; echo up; sleep 60 & wait"
    await _pod(cluster, "a", ["sh", "-c", script], livenessProbe=probe, policy="Always")
    await cluster.until_said("a", "up")
    (tmp_path / "alive").unlink()
    pod = await cluster.until("a", lambda pod: _restarts(pod) == 1)
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 0
    assert sorted(await cluster.warnings("a")) == [
        ("Killing", "Container main failed liveness probe, will be restarted"),
        ("Unhealthy", "Liveness probe failed: dead"),
    ]


async def test_a_container_that_is_never_restarted_fails_by_its_probe(cluster: Running) -> None:
    probe = {"exec": {"command": ["false"]}, **QUICK, "terminationGracePeriodSeconds": 1}
    await _pod(cluster, "a", ["sh", "-c", "trap '' TERM; sleep 60; sleep 60"], livenessProbe=probe)
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Failed"
    assert state(pod)["terminated"]["exitCode"] == 137, "it had one second to leave"
    assert ("Killing", "Container main failed liveness probe") in await cluster.warnings("a")


async def test_a_startup_probe_holds_back_the_others(cluster: Running, tmp_path: Path) -> None:
    startup = {"exec": {"command": ["test", "-e", str(tmp_path / "up")]}, "periodSeconds": 1, "failureThreshold": 30}
    liveness = {"exec": {"command": ["false"]}, **QUICK}
    await _pod(cluster, "a", ["sleep", "60"], startupProbe=startup, livenessProbe=liveness)
    pod = await cluster.until("a", is_running)
    told = pod["status"]["containerStatuses"][0]
    assert (told["started"], told["ready"]) == (False, False)
    await _until_told(cluster, "a", "Startup probe failed")
    (tmp_path / "up").touch()
    await cluster.finished("a")
    await _until_told(cluster, "a", "Container main failed liveness probe")


async def test_a_container_that_does_not_start_in_time_goes(cluster: Running) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    await _pod(cluster, "a", ["sleep", "60"], startupProbe=probe)
    assert (await cluster.finished("a"))["status"]["phase"] == "Failed"
    await _until_told(cluster, "a", "Container main failed startup probe")


async def test_a_command_that_takes_too_long_is_a_failure(cluster: Running) -> None:
    probe = {"exec": {"command": ["sleep", "30"]}, **QUICK, "timeoutSeconds": 1}
    await _pod(cluster, "a", ["sleep", "60"], readinessProbe=probe)
    told = 'Readiness probe failed: command timed out: "sleep 30" timed out after 1s'
    await _until_told(cluster, "a", told)


async def test_a_command_that_does_not_exist_says_nothing_about_the_container(cluster: Running) -> None:
    await _pod(cluster, "a", ["sleep", "2"], livenessProbe={"exec": {"command": ["no-such"]}, **QUICK})
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Succeeded"
    warnings = await cluster.warnings("a")
    # The last probe may meet a container that has just ended, which is another unknown state.
    assert {reason for reason, _ in warnings} == {"Unhealthy"}
    assert all("errored and resulted in unknown state" in message for _, message in warnings)


async def test_an_http_probe_asks_for_a_page(cluster: Running) -> None:
    good = {"httpGet": {"path": "/good", "port": "web", "httpHeaders": [{"name": "X-Who", "value": "me"}]}}
    bad = {"httpGet": {"path": "/bad", "port": 8080}}
    ports = [{"name": "web", "containerPort": 8080}]
    for name, probe in (("a", good), ("b", bad)):
        command = ["python3", "-c", SERVER]
        await _pod(cluster, name, command, readinessProbe={**probe, **QUICK}, ports=ports)
    await cluster.until("a", _is_ready)
    await _until_told(cluster, "b", "Readiness probe failed: HTTP probe failed with statuscode: 503")


async def test_a_tcp_probe_connects(cluster: Running) -> None:
    serve = (
        "import os, socket\ns = socket.create_server((os.environ.get('POD_IP', '0.0.0.0'), 7007))\n"
        "while True: s.accept()[0].close()"
    )
    probe = {"tcpSocket": {"port": 7007}, **QUICK}
    await _pod(cluster, "a", ["python3", "-c", serve], readinessProbe=probe)
    pod = await cluster.until("a", _is_ready)
    await _pod(cluster, "b", ["sleep", "60"], readinessProbe=probe)
    ip = (await cluster.until("b", is_running))["status"]["podIP"]
    await _until_told(cluster, "b", f"Readiness probe failed: dial tcp {ip}:7007: connect: connection refused")
    assert _restarts(pod) == 0


async def test_a_pod_is_asked_by_grpc(cluster: Running, tmp_path: Path) -> None:
    script = GRPC.format(ready=tmp_path / "ready")
    probe = {"grpc": {"port": 50051, "service": "train"}, **QUICK}
    await _pod(cluster, "a", ["python3", "-c", script], readinessProbe=probe)
    await cluster.until("a", is_running)
    await _until_told(cluster, "a", 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")')
    (tmp_path / "ready").touch()
    await cluster.until("a", _is_ready)
    await _pod(cluster, "b", ["sleep", "60"], readinessProbe=probe)
    ip = (await cluster.until("b", is_running))["status"]["podIP"]
    await _until_told(cluster, "b", f"Readiness probe failed: dial tcp {ip}:50051: connect: connection refused")


async def _pod(cluster: Running, name: str, command: list[str], *, policy: str = "Never", **container: Any) -> Pod:
    main = {"name": "main", "command": command, **container}
    return await cluster.pod(name, [main], labels={"app": name}, restartPolicy=policy)


async def _until_told(cluster: Running, name: str, words: str) -> None:
    await cluster.warned(name)
    for _ in range(100):
        told = [message for _, message in await cluster.warnings(name)]
        if any(words in message for message in told):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"never told {words!r} but {told}")


def _is_ready(pod: Pod) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _restarts(pod: Pod) -> int:
    told = pod["status"].get("containerStatuses")
    return int(told[0]["restartCount"]) if told else 0
