"""Claims outlive the pods that use them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import Invalid, NotFound
from pliant.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from tests.node.conftest import ONLY_PRIVATE
from tests.node.running import Running, eventually, is_running, running

MOUNTS: dict[str, Any] = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
VOLUMES = [{"name": "kept", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_claim_is_bound_at_once(cluster: Running) -> None:
    claim = await _claim(cluster, storageClassName="fast")
    bound = await _bound(cluster)
    assert bound["status"]["capacity"] == {"storage": "1Gi"}
    assert bound["status"]["accessModes"] == ["ReadWriteOnce"]
    assert bound["spec"]["volumeName"] == f"pvc-{claim['metadata']['uid']}"
    assert bound["spec"]["volumeMode"] == "Filesystem"
    told = f"Successfully provisioned volume {bound['spec']['volumeName']}"
    assert await cluster.warned("data") == ("ProvisioningSucceeded", told)


async def test_what_one_pod_keeps_another_finds(cluster: Running) -> None:
    await _claim(cluster)
    await _run(cluster, "a", "echo treasure > /kept/box")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a")
    await _run(cluster, "b", "cat /kept/box")
    assert await cluster.output("b") == "treasure\n"


async def test_a_pod_waits_for_its_claim(cluster: Running) -> None:
    await _pod(cluster, "a", "echo here > /kept/box")
    message = 'MountVolume.SetUp failed for volume "kept" : persistentvolumeclaim "data" not found'
    assert await cluster.warned("a") == ("FailedMount", message)
    await _claim(cluster)
    assert (await cluster.finished("a"))["status"]["phase"] == "Succeeded"


async def test_a_claim_that_is_deleted_takes_its_files_along(cluster: Running, tmp_path: Path) -> None:
    await _claim(cluster)
    await _run(cluster, "a", "echo gone > /kept/box; mkdir -m 0 /kept/closed")
    claims = tmp_path / "cluster" / "claims"
    assert len(list(claims.iterdir())) == 1
    await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
    await eventually(lambda: not list(claims.iterdir()), what="its folder is gone")
    await _claim(cluster)
    await _run(cluster, "b", "ls /kept")
    assert await cluster.output("b") == ""


async def test_a_claim_stays_as_long_as_a_pod_uses_it(cluster: Running, tmp_path: Path) -> None:
    await _claim(cluster)
    await _pod(cluster, "a", "echo here > /kept/box; sleep 60")
    await cluster.until("a", is_running)
    leaving = await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
    assert leaving["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    await asyncio.sleep(0.2)
    await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "default", "data")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a")
    claims = tmp_path / "cluster" / "claims"
    await eventually(lambda: not list(claims.iterdir()), what="its folder is gone")
    with pytest.raises(NotFound):
        await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "default", "data")


@ONLY_PRIVATE
async def test_a_claim_may_be_read_only_for_a_pod(cluster: Running) -> None:
    await _claim(cluster)
    volumes = [{"name": "kept", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}]
    await _pod(cluster, "a", "touch /kept/box || echo refused", volumes=volumes)
    await cluster.finished("a")
    assert "refused" in await cluster.output("a")


async def test_a_claim_says_how_much_it_wants(cluster: Running) -> None:
    with pytest.raises(Invalid, match=r"spec\.accessModes"):
        await _claim(cluster, accessModes=None)


async def _claim(cluster: Running, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    body = {"metadata": {"name": "data"}, "spec": {key: value for key, value in wanted.items() if value is not None}}
    whole = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body}
    return await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, "default", whole)


async def _bound(cluster: Running) -> dict[str, Any]:
    for _ in range(500):
        claim = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        if claim["status"]["phase"] == "Bound":
            return claim
        await asyncio.sleep(0.01)
    raise AssertionError("never bound")


async def _run(cluster: Running, name: str, script: str) -> None:
    await _pod(cluster, name, script)
    assert (await cluster.finished(name))["status"]["phase"] == "Succeeded"


async def _pod(cluster: Running, name: str, script: str, *, volumes: Any = VOLUMES) -> None:
    await cluster.pod(name, [{"name": "main", "command": ["sh", "-ec", script], **MOUNTS}], volumes=volumes)
