"""Init containers that go on running beside the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pliant.embedded.object_views import PodView
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.tables import build_table
from pliant.kube.resources import PODS
from pliant.kube.scheduling.fit import effective_pod_requests
from tests.node.running import Pod, Running, is_running, running, state

SHARE: dict[str, Any] = {"volumeMounts": [{"name": "share", "mountPath": "/share"}]}
VOLUMES = [{"name": "share", "emptyDir": {}}]


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_sidecar_starts_first_runs_beside_and_does_not_keep_the_pod(cluster: Running) -> None:
    beside = _sidecar("beside", "touch /share/here; trap 'exit 0' TERM; sleep 60 & wait")
    probe = {"exec": {"command": ["test", "-e", "/share/here"]}, "periodSeconds": 1}
    main = {"name": "main", "command": ["sh", "-ec", "cat /share/here; echo together"], **SHARE}
    await cluster.pod("a", [main], initContainers=[beside | SHARE | {"startupProbe": probe}], volumes=VOLUMES)
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Succeeded"
    assert await cluster.output("a") == "together\n"
    assert _init_state(pod)["terminated"]["exitCode"] == 0
    assert _conditions(pod)["Initialized"] == "True"


async def test_sidecars_end_after_the_others_in_reverse_order(cluster: Running, tmp_path: Path) -> None:
    def leaves(name: str) -> str:
        return f"trap 'echo {name} >> {tmp_path}/order; exit 0' TERM; echo up; sleep 60 & wait"

    inits = [_sidecar("first", leaves("first")), _sidecar("second", leaves("second"))]
    await cluster.sh("a", leaves("main"), initContainers=inits)
    await cluster.until_said("a", "up")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=4)
    assert (tmp_path / "order").read_text().split() == ["main", "second", "first"]


async def test_a_pod_whose_sidecar_runs_is_ready_and_initialized(cluster: Running) -> None:
    await cluster.sh("a", "sleep 60", initContainers=[_sidecar("beside", "sleep 60")])
    pod = await cluster.until("a", is_running)
    assert _conditions(pod)["Ready"] == "True"
    told = pod["status"]["initContainerStatuses"][0]
    assert (told["ready"], told["started"]) == (True, True)


async def test_a_sidecar_that_ends_is_started_again_even_in_a_pod_that_never_restarts(cluster: Running) -> None:
    await cluster.sh("a", "sleep 60", initContainers=[_sidecar("beside", "sleep 0.2")])
    pod = await cluster.until("a", lambda pod: _init_restarts(pod) > 0)
    assert pod["status"]["phase"] == "Running"
    await cluster.until("a", lambda pod: _init_state(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=10)


async def test_what_follows_waits_for_a_sidecar_that_does_not_start(cluster: Running) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 60}
    inits = [_sidecar("slow", "sleep 60") | {"startupProbe": probe}]
    await cluster.sh("a", "echo never", initContainers=inits)
    pod = await cluster.until("a", lambda pod: "running" in _init_state(pod))
    assert pod["status"]["phase"] == "Pending"
    assert _conditions(pod)["Initialized"] == "False"
    assert state(pod)["waiting"]["reason"] == "PodInitializing"
    await cluster.client.delete(PODS, "default", "a", grace_period_seconds=30)
    await cluster.until_gone("a", within=10)


async def test_an_init_container_that_fails_ends_the_sidecars_before_it(cluster: Running) -> None:
    inits = [_sidecar("beside", "sleep 60"), {"name": "init", "image": "none", "command": ["false"]}]
    await cluster.sh("a", "echo never", initContainers=inits)
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Failed"
    assert "terminated" in _init_state(pod)


def _sidecar(name: str, script: str) -> dict[str, Any]:
    return {"name": name, "image": "none", "restartPolicy": "Always", "command": ["sh", "-c", script]}


def _init_state(pod: Pod) -> dict[str, Any]:
    told = pod["status"].get("initContainerStatuses")
    found: dict[str, Any] = told[0]["state"] if told else {}
    return found


def _init_restarts(pod: Pod) -> int:
    told = pod["status"].get("initContainerStatuses")
    return int(told[0]["restartCount"]) if told else 0


def _conditions(pod: Pod) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod["status"]["conditions"]}


def test_tables_count_sidecars_among_the_containers() -> None:
    kind = KindRegistry.with_builtin_kinds().find_kind("v1", "Pod")
    assert kind is not None
    beside = {"name": "beside", "started": True, "ready": True, "restartCount": 2, "state": {"running": {}}}
    main = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}
    pod = {
        "metadata": {"name": "a"},
        "spec": {"initContainers": [_sidecar("beside", "")], "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "initContainerStatuses": [beside], "containerStatuses": [main]},
    }
    cells = build_table(kind, [pod], datetime(2026, 1, 1, tzinfo=UTC))["rows"][0]["cells"]
    assert cells[1:4] == ["2/2", "Running", "2"]


def test_sidecars_take_room_beside_the_others_and_beside_init_containers_after_them() -> None:
    def asking(cpu: str, *, is_sidecar: bool = False) -> dict[str, Any]:
        policy = {"restartPolicy": "Always"} if is_sidecar else {}
        return {"resources": {"requests": {"cpu": cpu}}, **policy}

    def cpus(inits: list[dict[str, Any]], mains: list[dict[str, Any]]) -> float:
        body = {"metadata": {"name": "a"}, "spec": {"initContainers": inits, "containers": mains}}
        return float(effective_pod_requests(msgspec.convert(body, PodView).spec)["cpu"])

    beside = asking("1", is_sidecar=True)
    assert cpus([beside], [asking("2")]) == 3
    assert cpus([beside, asking("4")], [asking("2")]) == 5, "an init container after it runs beside it"
    assert cpus([asking("4"), beside], [asking("2")]) == 4, "one before it does not"
