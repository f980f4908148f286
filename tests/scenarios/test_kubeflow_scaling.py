"""`kubectl scale` of an elastic PyTorchJob: survivors stay as they are, and whoever leaves has not failed."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.kube.client import KubeClient
from tests.scenarios.kubeflow import KubeflowScene, members, on_paper, running, uids
from tests.scenarios.nodes import PaperNodes
from tests.scenarios.scene import Scene

MANY = 40


async def begin(scene: KubeflowScene, nodes: PaperNodes, size: int, **bounds: int) -> None:
    groups = {"Worker": members(nodes, size, restartPolicy="OnFailure")}
    fields: dict[str, Any] = {"elasticPolicy": bounds, "runPolicy": {"backoffLimit": 0}}
    await scene.submit(scene.manifest("t", groups, **fields))
    await until_size(scene, size)


async def scale(scene: Scene, size: int) -> None:
    """What `kubectl scale` does."""
    await scene.edit("t", {"spec": {"replicas": size}}, subresource="scale")


async def until_size(scene: Scene, size: int) -> None:
    wanted = {f"t-worker-{index}" for index in range(size)}
    await scene.until(lambda: running(scene, "t") == set(uids(scene, "t")) == wanted, f"{size} members")
    await scene.until(lambda: scene.phase("t") == "Running" and active(scene) == size, f"{size} told")


def active(scene: Scene) -> int:
    return int(scene.status("t")["replicaStatuses"]["Worker"].get("active", 0))


@pytest.mark.on_real
async def test_survivors_are_untouched_and_leavers_have_not_failed(client: KubeClient) -> None:
    async with on_paper(client) as (scene, nodes):
        await begin(scene, nodes, 2, minReplicas=1, maxReplicas=4)
        first = uids(scene, "t")
        await scale(scene, 4)
        await until_size(scene, 4)
        grown = uids(scene, "t")
        assert first.items() <= grown.items()
        await scale(scene, 1)
        await until_size(scene, 1)
        assert uids(scene, "t") == {"t-worker-0": grown["t-worker-0"]}
        assert scene.phases("t")[-1] == "Running"
        assert not {"Restarting", "Failed"} & set(scene.phases("t"))
        assert "failed" not in scene.status("t")["replicaStatuses"]["Worker"]
        told = await scene.client.get(scene.jobs, scene.namespace, "t", subresource="scale")
        assert told["spec"]["replicas"] == told["status"]["replicas"] == 1
        assert told["status"]["selector"] == scene.status("t")["replicaStatuses"]["Worker"]["selector"]


@pytest.mark.parametrize(
    ("bounds", "asked", "given"),
    [
        ({"minReplicas": 2}, 5, 5),
        ({"minReplicas": 2}, 1, 2),
        ({"maxReplicas": 3}, 9, 3),
        ({"maxReplicas": 3}, 1, 1),
        ({}, 3, 3),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
async def test_one_bound_is_enough(client: KubeClient, bounds: dict[str, int], asked: int, given: int) -> None:
    async with on_paper(client) as (scene, nodes):
        await begin(scene, nodes, 2, **bounds)
        await scale(scene, asked)
        await until_size(scene, given)


async def test_members_are_made_side_by_side(client: KubeClient) -> None:
    async with on_paper(client) as (scene, nodes):
        groups = {"Master": members(nodes), "Worker": members(nodes, MANY - 1)}
        await scene.submit(scene.manifest("t", groups))
        await scene.until(lambda: len(running(scene, "t")) == MANY, "everybody")
        made = {change.name: change for change in reversed(scene.history) if change.kind == "Pod"}
        named = {change.name: change for change in reversed(scene.history) if change.kind == "Service"}
        # Names come first, and all of them: nobody waits for somebody else's pod.
        assert max(each.version for each in named.values()) < min(each.version for each in made.values())
