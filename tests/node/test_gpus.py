"""Programs see the GPUs that are theirs, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import NODES, PODS
from tests.embedded.nvidia_smi import FakeSmi
from tests.node.running import Running, running

GPU = "nvidia.com/gpu"
VISIBLE = "echo ${CUDA_VISIBLE_DEVICES-unset} ${NVIDIA_VISIBLE_DEVICES-unset}"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    """A machine with two GPUs."""
    tmp_path.chmod(0o755)
    fake = FakeSmi(tmp_path)
    fake.lists(0, 1)
    monkeypatch.setenv("PATH", fake.path)
    return fake


async def wanting(cluster: Running, name: str, count: int, script: str, **spec: Any) -> None:
    """Create a pod that asks for GPUs."""
    resources = {"limits": {GPU: str(count)}}
    container = {"name": "main", "command": ["sh", "-ec", script], "resources": resources}
    await cluster.pod(name, [container], **spec)


async def test_each_gpu_is_one_pods_until_that_has_ended(tmp_path: Path, smi: FakeSmi) -> None:
    async with running(tmp_path) as cluster:
        (node,) = (await cluster.client.list(NODES)).items
        assert node["status"]["allocatable"][GPU] == "2"
        stay = f"{VISIBLE}; echo up; exec sleep 60"
        for name in ("first", "second"):
            await wanting(cluster, name, 1, stay)
        for name in ("first", "second"):
            await cluster.until_said(name, "up")
        seen = {name: (await cluster.output(name)).split()[:2] for name in ("first", "second")}
        assert sorted(seen.values()) == [["GPU-0-uuid"] * 2, ["GPU-1-uuid"] * 2]
        assert await cluster.ran("none", VISIBLE) == "void"
        await wanting(cluster, "third", 1, VISIBLE)
        pod = await cluster.until("third", lambda pod: bool(pod["status"].get("conditions")))
        words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        assert pod["status"]["conditions"][0]["message"] == words
        await cluster.client.delete(PODS, "default", "second", grace_period_seconds=0)
        await cluster.finished("third")
        assert (await cluster.output("third")).split() == seen["second"]


async def test_pretended_gpus_are_numbers_and_plain_nodes_say_nothing(tmp_path: Path) -> None:
    async with running(tmp_path / "some", node_gpu=4) as cluster:
        await wanting(cluster, "two", 2, VISIBLE)
        await cluster.finished("two")
        assert await cluster.output("two") == "0,1 0,1\n"
    async with running(tmp_path / "none", node_gpu=0) as cluster:
        assert await cluster.ran("none", VISIBLE) == "unset unset"


async def test_a_pod_that_chose_a_node_without_them_fails(tmp_path: Path) -> None:
    async with running(tmp_path, node_gpu=1) as cluster:
        await wanting(cluster, "bold", 2, VISIBLE, nodeName="node-0")
        pod = await cluster.finished("bold")
        assert pod["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 2, Available: 1" in pod["status"]["message"]


async def test_a_container_that_starts_anew_has_the_same_gpus(tmp_path: Path) -> None:
    async with running(tmp_path, node_gpu=2) as cluster:
        script = f"{VISIBLE}; test -e {tmp_path}/again && exec sleep 60; touch {tmp_path}/again; exit 1"
        await wanting(cluster, "a", 1, script, restartPolicy="OnFailure")
        await cluster.until("a", lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("restartCount") == 1)
        await cluster.until_said("a", "0 0")
        assert await cluster.output("a", previous=True) == await cluster.output("a") == "0 0\n"
