"""What people say of a node stays said, and pods leave a node that fails as they do on a real one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.controllers import pod_gc
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from tests.node.running import Running, eventually, is_running, running

BROKEN = {"key": "gpu", "value": "broken", "effect": "NoSchedule"}


async def tell(cluster: Running, node: str, condition: str, status: str) -> None:
    patch = {"status": {"conditions": [{"type": condition, "status": status, "reason": "SoSaysATest"}]}}
    await cluster.client.patch(NODES, None, node, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")


async def conditions(cluster: Running, node: str) -> dict[str, str]:
    found = await cluster.client.get(NODES, None, node)
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


def writes_of(path: Path) -> int:
    return len(path.read_text()) if path.exists() else 0


async def test_a_node_that_was_said_to_fail_fails_until_the_cluster_starts_again(tmp_path: Path) -> None:
    async with running(tmp_path, durable=True, node_count=2) as cluster:
        await tell(cluster, "node-0", "Ready", "False")
        await tell(cluster, "node-0", "GPUUnhealthy", "True")
        await cluster.client.patch(NODES, None, "node-1", {"spec": {"taints": [BROKEN]}})
        # Pods come and go meanwhile.
        await cluster.sh("a", "true", nodeName="node-0")
        await cluster.finished("a")
        assert await conditions(cluster, "node-0") == {"Ready": "False", "GPUUnhealthy": "True"}
        await cluster.sh("b", "true")
        reason, message = await cluster.warned("b")
        assert reason == "FailedScheduling"
        assert message.startswith("0/2 nodes are available: 1 node(s) had untolerated taint {gpu: broken}, ")
    async with running(tmp_path, durable=True, node_count=2) as cluster:
        assert await conditions(cluster, "node-0") == {"Ready": "True", "GPUUnhealthy": "True"}
        assert (await cluster.client.get(NODES, None, "node-1"))["spec"]["taints"] == [BROKEN]
        await cluster.finished("b")


async def test_nodes_of_other_people_are_left_to_them(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}}
    async with running(tmp_path, durable=True) as cluster:
        await cluster.client.create(NODES, None, body)
        await tell(cluster, "theirs", "Ready", "True")
        await cluster.sh("a", "true", nodeName="theirs")
    async with running(tmp_path, durable=True) as cluster:
        assert {node["metadata"]["name"] for node in (await cluster.client.list(NODES)).items} == {"node-0", "theirs"}
        await cluster.ran("b", "true")
        assert (await cluster.client.get(PODS, "default", "a"))["status"]["phase"] == "Pending"


async def test_pods_of_a_node_that_was_deleted_end_with_their_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_gc, "MISSING_NODE_GRACE_SECONDS", 1.0)  # forty seconds are for people
    beat = tmp_path / "beat"
    async with running(tmp_path, node_count=2) as cluster:
        await cluster.sh("a", f"trap '' TERM; while :; do printf . >>{beat}; sleep 0.05; done", nodeName="node-0")
        uid = (await cluster.client.get(PODS, "default", "a"))["metadata"]["uid"]
        await cluster.sh("b", "sleep 60", nodeName="node-1")
        await cluster.until("a", is_running)
        await cluster.until("b", is_running)
        await cluster.client.delete(NODES, None, "node-0")
        await cluster.until_gone("a")
        await eventually(lambda: not list((tmp_path / "cluster" / "pods").glob(uid)), what="its files go")
        seen = writes_of(beat)
        await asyncio.sleep(0.2)  # three of its beats, would it still live
        assert writes_of(beat) == seen
        assert is_running(await cluster.client.get(PODS, "default", "b"))
        # The node is made anew, as `pliant node recover` does it, and serves as before.
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}
        await cluster.client.create(NODES, None, body)
        await cluster.ran("a", "true", nodeSelector={"kubernetes.io/hostname": "node-0"})


async def test_pods_outlive_the_object_of_their_node(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    async with running(tmp_path) as cluster:
        await cluster.sh("a", f"while :; do printf . >>{beat}; sleep 0.05; done")
        await cluster.until("a", is_running)
        await cluster.client.delete(NODES, None, "node-0")
        seen = writes_of(beat)
        await eventually(lambda: writes_of(beat) > seen + 2, what="it going on")
        assert is_running(await cluster.client.get(PODS, "default", "a"))
        await cluster.client.delete(PODS, "default", "a")
        await cluster.until_gone("a")
        seen = writes_of(beat)
        await asyncio.sleep(0.2)  # three of its beats, would it still live
        assert writes_of(beat) == seen


async def test_a_pod_deleted_by_force_dies_at_once_and_leaves_its_name(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo up; while :; do printf . >>{}; sleep 0.05; done"
    first, second = tmp_path / "first", tmp_path / "second"
    async with running(tmp_path) as cluster:
        await cluster.sh("a", stubborn.format(first), terminationGracePeriodSeconds=600)
        await cluster.until_said("a", "up")
        begun = time.monotonic()
        await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
        await cluster.sh("a", stubborn.format(second), terminationGracePeriodSeconds=600)
        await cluster.until_said("a", "up")
        seen = writes_of(first)
        await eventually(lambda: writes_of(second) > 5, what="the successor at work")
        assert writes_of(first) == seen
        assert time.monotonic() - begun < 10, "far less than any grace"


async def test_a_pod_that_is_leaving_can_be_forced(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.sh("a", "trap '' TERM; echo up; sleep 600 & wait; wait", terminationGracePeriodSeconds=600)
        await cluster.until_said("a", "up")
        await cluster.client.delete(PODS, "default", "a")
        await cluster.until("a", lambda pod: "deletionTimestamp" in pod["metadata"])
        await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
        await cluster.until_gone("a")
        assert await cluster.ran("a", "echo successor") == "successor"


async def test_gpus_of_a_virtual_node_can_be_asked_for(tmp_path: Path) -> None:
    def needy(count: int) -> list[Any]:
        return [{"name": "main", "command": ["sleep", "60"], "resources": {"limits": {"nvidia.com/gpu": count}}}]

    async with running(tmp_path, node_gpu=4) as cluster:
        await cluster.pod("a", needy(3))
        await cluster.until("a", is_running)
        await cluster.pod("b", needy(2))
        assert await cluster.warned("b") == (
            "FailedScheduling",
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        )
        await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
        await cluster.until("b", is_running)


async def test_pods_are_driven_out_by_a_mark(tmp_path: Path) -> None:
    driving = {"key": "gpu", "value": "broken", "effect": "NoExecute"}
    async with running(tmp_path) as cluster:
        await cluster.sh("a", "sleep 600")
        await cluster.until("a", is_running)
        await cluster.client.patch(NODES, None, "node-0", {"spec": {"taints": [driving]}})
        await cluster.until_gone("a")
