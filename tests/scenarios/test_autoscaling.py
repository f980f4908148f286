"""The sizes of elastic jobs follow the room there is, with the PaddleJob of old as it was written."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES, RESOURCE_QUOTAS, Resource
from pliant.model.messages import Message
from tests.scenarios.cluster import OperatorProcess, Site, operator, without_operator
from tests.scenarios.messages import resized
from tests.scenarios.nodes import PaperNodes, paper_nodes
from tests.scenarios.scene import Scene, fresh_name, played

SEED = Path(__file__).parents[1] / "golden/paddle/seed.in.yaml"
"""Two servers of half a CPU, and two to six trainers of a fifth."""
HASTY = ("--autoscale-period=1s", "--autoscale-cooldown=1s")
_KIND = FRONTENDS["paddlepaddle.org", "PaddleJob"]


class PaddleScene(Scene):
    """A namespace with PaddleJobs."""

    jobs = Resource(_KIND.group, _KIND.version, _KIND.plural, _KIND.kind)

    def scaling(self, name: str = "paddlejob") -> dict[str, Any]:
        """What a status tells of the trainers' size."""
        told = self.status(name).get("scaling") or ()
        return next((dict(each) for each in told if each["group"] == "trainer"), {})

    def trainers(self, name: str = "paddlejob") -> list[str]:
        """The trainers that run and are to stay."""
        mine = {pod: each for pod, each in self.pods.items() if pod.startswith(f"{name}-trainer-")}
        running = [pod for pod, each in mine.items() if each["status"].get("phase") == "Running"]
        return [pod for pod in running if "deletionTimestamp" not in mine[pod]["metadata"]]

    async def until_trainers(self, number: int, name: str = "paddlejob") -> dict[str, Any]:
        """Wait for so many; what the status says then."""
        await self.until(
            lambda: len(self.trainers(name)) == number and self.scaling(name).get("size") == number,
            f"{number} trainers of {name}",
        )
        return self.scaling(name)

    def resizes(self, name: str = "paddlejob") -> list[Message]:
        """All new sizes in the story, the oldest first."""
        return [moment.message for moment in self.timeline(name) if moment.reason == "Resized"]


class OpenNodes(PaperNodes):
    """Nodes on paper that take everybody, as far as 3 CPUs go."""

    async def restore(self, name: str) -> None:
        """Make a node, open to all."""
        await super().restore(name)
        await self._client.patch(NODES, None, name, {"spec": {"taints": None}})
        has = {"cpu": "3", "memory": "8Gi", "pods": "110"}
        await self._write(name, {"capacity": has, "allocatable": has})


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    with without_operator(ground) as started:
        yield started


@pytest.fixture
def worker(site: Site) -> Iterator[OperatorProcess]:
    """An operator at work that is quick to resize."""
    with operator(site, options=HASTY) as process:
        process.start()
        yield process


@asynccontextmanager
async def on_stage(client: KubeClient, nodes: int = 1) -> AsyncIterator[tuple[PaddleScene, OpenNodes]]:
    """A scene whose pods have nowhere to go but some nodes on paper."""
    for other in (await client.list(NODES)).items:
        await client.patch(NODES, None, other["metadata"]["name"], {"spec": {"unschedulable": True}})
    async with played(PaddleScene(client, fresh_name())) as scene:
        for index in range(20):
            scene.excuse(f"paddlejob-trainer-{index}")  # whoever made way comes back at the same attempt
        stage = OpenNodes(scene, nodes, 0)
        async with paper_nodes(scene, nodes, made=stage):
            yield scene, stage


def seed(name: str = "paddlejob", **annotations: str) -> dict[str, Any]:
    """The job as people wrote it, but for its namespace."""
    body: dict[str, Any] = yaml.safe_load(SEED.read_text())
    del body["metadata"]["namespace"]
    body["metadata"] |= {"name": name, **({"annotations": annotations} if annotations else {})}
    return body


def fixed(cpu: str) -> dict[str, Any]:
    """A job of one trainer, no more and no fewer."""
    body = seed("newcomer")
    del body["spec"]["pserver"]
    asked = {"cpu": cpu, "memory": "200Mi"}
    body["spec"]["trainer"] |= {"min-instance": 1, "max-instance": 1, "resources": {"requests": asked}}
    return body


async def submit(scene: PaddleScene, body: dict[str, Any]) -> None:
    await scene.client.create(scene.jobs, scene.namespace, copy.deepcopy(body))


async def annotate(scene: PaddleScene, word: str | None) -> None:
    await scene.edit("paddlejob", {"metadata": {"annotations": {"pliant/autoscale": word}}})


@pytest.mark.on_real
async def test_trainers_fill_free_room_make_way_for_a_newcomer_and_come_back(
    client: KubeClient, worker: OperatorProcess
) -> None:
    async with on_stage(client) as (scene, _):
        await submit(scene, seed())
        grown = await scene.until_trainers(6)
        assert (grown["requestedBy"], grown["message"]) == ("autoscaler", "4 more fit")
        assert scene.events("paddlejob")["Resized"] == resized("trainer", 2, 6, "autoscaler", "4 more fit")
        await submit(scene, fixed("1200m"))
        await scene.until(lambda: scene.trainers("newcomer"), "the newcomer running")
        shrunk = await scene.until_trainers(4)
        waits = f"makes room for {scene.namespace}/newcomer: 1 pod of 1.2 CPU and 200 MiB is pending"
        assert shrunk["message"] == waits
        survivors = {name: scene.pods[name]["metadata"]["uid"] for name in scene.trainers()}
        await scene.delete("newcomer")
        await scene.until_trainers(6)
        now = {name: scene.pods[name]["metadata"]["uid"] for name in scene.trainers()}
        assert survivors.items() <= now.items()
        assert scene.resizes() == [
            resized("trainer", 2, 6, "autoscaler", "4 more fit"),
            resized("trainer", 6, 4, "autoscaler", waits),
            resized("trainer", 4, 6, "autoscaler", "2 more fit"),
        ]


async def test_advice_an_annotation_and_a_hand_decide_who_sets_the_size(
    client: KubeClient, worker: OperatorProcess
) -> None:
    async with on_stage(client) as (scene, _):
        await submit(scene, seed(**{"pliant/autoscale": "recommend"}))
        await scene.until(lambda: scene.scaling().get("recommendedSize") == 6, "advice")
        told = await scene.until_trainers(2)
        assert ("requestedBy" in told, told["recommendationMessage"]) == (False, "4 more fit")
        await annotate(scene, "on")
        await scene.until_trainers(6)
        await annotate(scene, "off")
        told = await scene.until_trainers(2)
        assert "recommended" not in told
        await annotate(scene, None)
        await scene.until_trainers(6)
        await scene.edit("paddlejob", {"spec": {"replicas": 3}}, subresource="scale")
        await scene.until(
            lambda: "a user set its size" in scene.scaling().get("recommendationMessage", ""), "a size left alone"
        )
        told = await scene.until_trainers(3)
        assert (told["requestedBy"], told["recommendedSize"]) == ("scale", 3)


async def test_closed_nodes_do_not_count_and_an_operator_that_comes_back_changes_nothing(
    client: KubeClient, worker: OperatorProcess
) -> None:
    async with on_stage(client, 2) as (scene, nodes):
        cordoned, tainted = nodes.names
        await client.patch(NODES, None, cordoned, {"spec": {"unschedulable": True}})
        body = seed()
        body["spec"]["trainer"] |= {"max-instance": 20}
        await submit(scene, body)
        # Of 3 CPUs the servers have 1, and 3 in a hundred stay free.
        await scene.until_trainers(9)
        worker.kill()
        story = scene.resizes()
        worker.start()
        await nodes.taint(tainted, "closed")
        await client.patch(NODES, None, cordoned, {"spec": {"unschedulable": False}})
        await scene.until_trainers(20)
        assert scene.resizes()[: len(story)] == story
        worker.kill()
        story = scene.resizes()
        worker.start()
        await submit(scene, fixed("100m"))
        await scene.until(lambda: scene.trainers("newcomer"), "the newcomer running")
        await asyncio.sleep(1.5)  # as long as a plan may take to come
        assert scene.resizes() == story


@pytest.mark.on_real
async def test_a_quota_is_not_overdrawn(client: KubeClient, worker: OperatorProcess) -> None:
    async with on_stage(client) as (scene, _):
        body = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "1900m"}}}
        await client.create(RESOURCE_QUOTAS, scene.namespace, {"apiVersion": "v1", "kind": "ResourceQuota", **body})
        await submit(scene, seed())
        await scene.until(lambda: "quota" in scene.scaling().get("recommendationMessage", ""), "word of the quota")
        await scene.until_trainers(4)
