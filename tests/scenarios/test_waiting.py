"""Jobs that cannot start yet say what they wait for, and start as soon as it is there."""

from __future__ import annotations

import pytest

from pliant.kube.resources import CONFIG_MAPS, NODES
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.messages import start_problems
from tests.scenarios.nodes import PAPER
from tests.scenarios.scene import Scene


def problem(scene: Scene, name: str, replica: str = "worker-0") -> str:
    """Why a replica does not start, as its job tells; empty if it is not told."""
    return start_problems(scene.message(name)).get(replica, "")


def asking(each: Manifest, **amounts: str) -> Manifest:
    each["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts}
    return each


async def test_a_job_waits_for_room_and_runs_when_there_is(scene: Scene) -> None:
    nodes = (await scene.client.list(NODES, labels=f"!{PAPER}")).items
    if len(nodes) != 1:
        pytest.skip("there would be room elsewhere")
    all_there_is = nodes[0]["status"]["allocatable"]["cpu"]
    await scene.submit(job("first", {"worker": asking(group(FOREVER), cpu=all_there_is)}))
    await scene.until_phase("first", "Running")
    await scene.submit(job("second", {"worker": asking(group("exit 0"), cpu=all_there_is)}))
    await scene.until(lambda: "Insufficient cpu" in problem(scene, "second"), "the lack told")
    assert scene.phase("second") == "Pending"
    await scene.delete("first")
    await scene.until_phase("second", "Succeed")


async def test_members_wait_for_their_configuration(scene: Scene) -> None:
    worker = group("echo $GREETING")
    source = {"configMapKeyRef": {"name": "words", "key": "greeting"}}
    worker["template"]["spec"]["containers"][0]["env"] = [{"name": "GREETING", "valueFrom": source}]
    await scene.submit(job("t", {"worker": worker}, cleanPodPolicy="None"))
    await scene.until(lambda: "words" in problem(scene, "t"), "the missing configuration told")
    assert scene.phase("t") == "Creating"
    assert "CreateContainerConfigError" in problem(scene, "t")
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"greeting": "hello"}}
    await scene.client.create(CONFIG_MAPS, scene.namespace, words)
    await scene.until_phase("t", "Succeed")
    assert await scene.log("t-worker-0") == "hello\n"


async def test_one_member_without_a_place_keeps_the_job_from_running(scene: Scene) -> None:
    far = group(FOREVER)
    far["template"]["spec"]["nodeSelector"] = {"no-such-label": "true"}
    await scene.submit(job("t", {"near": group(FOREVER, 2), "far": far}))
    await scene.until(lambda: problem(scene, "t", "far-0").startswith("Unschedulable"), "the member named")
    assert scene.phase("t") == "Pending"
    assert scene.status("t")["ready"] == "2/3"
    assert "startRunningTime" not in scene.status("t")
