"""Replicas that save their state before they leave: by resizes, suspensions, deletions and drains."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import TooManyRequests
from pliant.kube.resources import NODES, PODS
from pliant.model.labels import ACKNOWLEDGED_CHECKPOINT_ANNOTATION, EVICTION_LABEL
from tests.cli.ordinary_user import ROOT
from tests.scenarios.conftest import rather_on_real
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.nodes import paper_nodes
from tests.scenarios.scene import Scene

GRACE = 4
# The program is a file of this machine, which the pods of a real cluster do not have.
with_processes = pytest.mark.parametrize("ground", ["embedded"], indirect=True, scope="session")
PROGRAM = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "pliant")!r})
import elastic
job = elastic.join()
while True:
    if job.should_checkpoint():
        open("/dev/termination-log", "a").write("saved ")
        time.sleep({{seconds}})
        job.acknowledge()
        if job.is_leaving:
            job.leave()
    time.sleep(0.02)
"""


def training_job(name: str, size: int = 3, seconds: float = 0.3, **elastic: Any) -> Manifest:
    """A job whose replicas take some time to save their state."""
    worker = group("", size, minReplicas=1, maxReplicas=4, restartPolicy="OnFailure", restartScope="Pod")
    container = worker["template"]["spec"]["containers"][0]
    container["command"] = ["python3", "-c", PROGRAM.format(seconds=seconds)]
    return job(name, {"worker": worker}, elastic={"checkpointGrace": GRACE, **elastic})


async def start(scene: Scene, manifest: Manifest, size: int = 3) -> None:
    """Submit a job, and wait until all its replicas have announced that they acknowledge requests."""
    name = manifest["metadata"]["name"]
    await scene.submit(manifest)
    names = [f"{name}-worker-{index}" for index in range(size)]

    def have_announced() -> bool:
        return all(acknowledged(scene.pods[each]) == 0 for each in names if each in scene.pods) and (
            set(names) <= scene.pods.keys()
        )

    await scene.until(have_announced, "all announced")


def acknowledged(pod: dict[str, Any]) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(ACKNOWLEDGED_CHECKPOINT_ANNOTATION)
    return None if text is None else int(text)


def was_saved_before_deletion(scene: Scene, name: str) -> bool:
    """Whether the pod had acknowledged a request when its deletion began."""
    history = [change.object for change in scene.history if change.kind == "Pod" and change.name == name]
    leaving = next(each for each in history if each["metadata"].get("deletionTimestamp"))
    return (acknowledged(leaving) or 0) > 0


def saves(pod: dict[str, Any]) -> int:
    """How often the program has saved its state, by its termination message."""
    states = [each["state"].get("terminated") or {} for each in pod["status"].get("containerStatuses") or ()]
    return sum(str(state.get("message", "")).count("saved") for state in states)


@with_processes
async def test_replicas_that_a_resize_removes_have_saved_their_state(scene: Scene) -> None:
    await start(scene, training_job("t"))
    await scene.edit("t", {"spec": {"replicas": 1}}, subresource="scale")
    await scene.until(lambda: set(scene.pods) == {"t-worker-0"}, "one left")
    assert was_saved_before_deletion(scene, "t-worker-1")
    assert was_saved_before_deletion(scene, "t-worker-2")
    reasons = [entry.reason for entry in scene.timeline("t")]
    assert reasons[-3:] == ["Resized", "CheckpointRequested", "CheckpointEnded"]
    assert scene.status("t")["RestartCount"] == {"worker": 0}


@with_processes
async def test_a_suspended_job_has_saved_its_state(scene: Scene) -> None:
    await start(scene, training_job("t"))
    await scene.edit("t", {"spec": {"suspend": True}})
    await scene.until(lambda: not scene.pods, "all gone")
    assert all(was_saved_before_deletion(scene, f"t-worker-{index}") for index in range(3))


@with_processes
async def test_who_takes_too_long_is_deleted_at_the_deadline(scene: Scene) -> None:
    await start(scene, training_job("t", seconds=60))
    await scene.edit("t", {"spec": {"replicas": 2}}, subresource="scale")
    await scene.until(lambda: "deletionTimestamp" in scene.pods["t-worker-2"]["metadata"], "one leaving")
    assert not was_saved_before_deletion(scene, "t-worker-2")


@with_processes
async def test_a_pod_that_is_deleted_by_hand_saves_its_state_by_the_hook(scene: Scene) -> None:
    await start(scene, training_job("t", 1), 1)
    uid = scene.pods["t-worker-0"]["metadata"]["uid"]
    await scene.delete_pod("t-worker-0")
    await scene.until(
        lambda: scene.pods.get("t-worker-0", {}).get("metadata", {}).get("uid") not in (None, uid), "back"
    )
    history = [change.object for change in scene.history if change.kind == "Pod"]
    assert max(saves(pod) for pod in history if pod["metadata"]["uid"] == uid) == 1


@with_processes
async def test_a_drain_waits_for_the_state(scene: Scene) -> None:
    await start(scene, training_job("t", 1, seconds=1, disruptionBudget=True), 1)
    node = scene.pods["t-worker-0"]["spec"]["nodeName"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "t-worker-0"}}

    async def evict() -> bool:
        try:
            await scene.client.create(PODS, scene.namespace, eviction, name="t-worker-0", subresource="eviction")
        except TooManyRequests:
            return False
        return True

    assert not await evict()
    await scene.client.patch(NODES, None, node, {"spec": {"unschedulable": True}})
    try:
        await scene.until(lambda: acknowledged(scene.pods["t-worker-0"]) == 1, "saved")
        scene.excuse("t-worker-0")
        await scene.until(
            lambda: scene.pods["t-worker-0"]["metadata"]["labels"][EVICTION_LABEL] != "blocked", "allowed"
        )
        assert await evict()
    finally:
        await scene.client.patch(NODES, None, node, {"spec": {"unschedulable": False}})


async def acknowledge(scene: Scene, name: str, number: int) -> None:
    """Do what the operator does when a replica acknowledges a request."""
    annotations = {ACKNOWLEDGED_CHECKPOINT_ANNOTATION: str(number)}
    await scene.client.patch(PODS, scene.namespace, name, {"metadata": {"annotations": annotations}})


@rather_on_real
async def test_the_steps_of_a_departure_are_in_the_status(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        worker = nodes.place(group(FOREVER, 3, minReplicas=1, maxReplicas=4))
        await scene.submit(job("t", {"worker": worker}))
        await scene.until_phase("t", "Running")
        for index in range(3):
            await acknowledge(scene, f"t-worker-{index}", 0)
        await scene.until(lambda: all(acknowledged(pod) == 0 for pod in scene.pods.values()), "all announced")
        await scene.edit("t", {"spec": {"replicas": 2}}, subresource="scale")
        [departure] = await scene.until(lambda: departures(scene), "a departure")
        assert (departure["request"], departure["reason"], [*departure["pods"].values()]) == (1, "Resized", [2])
        assert scene.status("t")["pliant"]["membership"]["indexes"] == {"worker": "0-1"}
        assert "deletionTimestamp" not in scene.pods["t-worker-2"]["metadata"]
        await acknowledge(scene, "t-worker-2", 1)
        await scene.until(lambda: set(scene.pods) == {"t-worker-0", "t-worker-1"}, "it gone")
        await scene.until(lambda: not departures(scene), "no departure left")
        assert [entry.reason for entry in scene.timeline("t")][-1] == "CheckpointEnded"


def departures(scene: Scene) -> list[dict[str, Any]]:
    return list(scene.status("t").get("pliant", {}).get("departures", ()))
