"""A job may be deleted at any moment, and then nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pliant.kube.resources import PODS
from tests.depth import sample
from tests.scenarios.host import processes_marked
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_rank
from tests.scenarios.nodes import paper_nodes
from tests.scenarios.scene import JOBS, Scene

pytestmark = pytest.mark.on_real

STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"


def nowhere() -> Manifest:
    """A group that fits on no node."""
    each = group(FOREVER, 2)
    each["template"]["spec"]["nodeSelector"] = {"no-such-label": "true"}
    return each


def restarting(**fields: Any) -> Manifest:
    return group(per_rank(STUBBORN, "exit 3"), 2, restartPolicy="OnFailure", **fields)


def has_begun(scene: Scene) -> bool:
    return bool(scene.pods)


def is_in(phase: str) -> Callable[[Scene], bool]:
    return lambda scene: scene.phase("t") == phase


def waits_to_come_back(scene: Scene) -> bool:
    return len(scene.made("t-worker-0")) == 2 and not scene.pods


MOMENTS: dict[str, tuple[Manifest, dict[str, Any], Callable[[Scene], bool]]] = {
    "at once": (group(FOREVER, 3), {}, lambda _: True),
    "when the first pod comes": (group(FOREVER, 3), {}, has_begun),
    "while no node takes it": (nowhere(), {}, is_in("Pending")),
    "while it runs": (group(FOREVER, 3), {}, is_in("Running")),
    "while it runs and will not listen": (group(STUBBORN, 2), {}, is_in("Running")),
    "while a restart takes old pods away": (restarting(), {}, is_in("Restarting")),
    "while it waits to come back": (group("exit 3", restartPolicy="OnFailure"), {}, waits_to_come_back),
    "while it is being cleared away": (group(per_rank(STUBBORN, "exit 3"), 2), {}, is_in("Terminating")),
    "while it is suspended": (group(FOREVER, 2), {"suspend": True}, is_in("Suspended")),
    "while its time is up and it will not listen": (group(STUBBORN, 2), {"timeLimit": 1}, is_in("Terminating")),
    "when its time was up": (group(FOREVER, 2), {"timeLimit": 1}, is_in("Timeout")),
    "when it never started in time": (nowhere(), {"startLimit": 1}, is_in("Timeout")),
    "when it has succeeded": (group("exit 0"), {}, is_in("Succeed")),
    "when it has failed": (group("exit 1"), {}, is_in("Failed")),
    "when it has ended and keeps its pods": (group("exit 0", 2), {"cleanPodPolicy": "None"}, is_in("Succeed")),
}


@pytest.mark.parametrize("name", sample(MOMENTS, 6, "moments of deletion"))
async def test_nothing_is_left_of_a_job_deleted(scene: Scene, name: str) -> None:
    worker, fields, moment = MOMENTS[name]
    await scene.submit(job("t", {"worker": worker}, **fields))
    await scene.until(lambda: moment(scene), "the moment to delete the job")
    await scene.delete("t")
    await scene.until_gone()
    assert processes_marked(scene.namespace) == {}


async def test_a_job_deleted_while_it_is_sent_home_leaves_nothing(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(STUBBORN, 2)}))
    await scene.until_phase("t", "Running")
    await scene.edit("t", {"spec": {"suspend": True}})
    await scene.until_phase("t", "Suspended")
    await scene.delete("t")
    await scene.until_gone()
    assert processes_marked(scene.namespace) == {}


async def test_a_job_deleted_with_a_dead_node_leaves_nothing(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 2))}))
        await scene.until_phase("t", "Running")
        nodes.kubelet.abandon(nodes.names[0])
        await scene.delete("t")
        await scene.until(lambda: is_every_pod_leaving(scene), "pods that nobody lets go")
        await nodes.not_ready(nodes.names[0])
        await scene.until_gone()


def is_every_pod_leaving(scene: Scene) -> bool:
    pods = scene.pods.values()
    return len(pods) == 2 and all("deletionTimestamp" in pod["metadata"] for pod in pods)


async def test_a_job_deleted_in_the_foreground_goes_last(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    await scene.client.delete(JOBS, scene.namespace, "t", propagation="Foreground")
    await scene.until(lambda: not scene.job("t"), "the job gone")
    # Streams of different kinds may lag behind each other, a list does not.
    assert (await scene.client.list(PODS, scene.namespace)).items == []


async def test_a_job_deleted_and_made_again_at_once_is_a_new_job(scene: Scene) -> None:
    old = await scene.submit(job("t", {"worker": group(STUBBORN, 2)}))
    await scene.until_phase("t", "Running")
    await scene.delete("t")
    new = await scene.submit(job("t", {"worker": group("exit 0", 2)}))
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    await scene.until_phase("t", "Succeed")
    assert [len(scene.made(f"t-worker-{index}")) for index in (0, 1)] == [2, 2]
    assert scene.pods == {}


async def test_a_job_made_and_deleted_many_times_leaves_nothing(scene: Scene) -> None:
    for _ in range(8):
        await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
        await scene.delete("t")
    await scene.until_gone()
    assert processes_marked(scene.namespace) == {}


async def test_a_namespace_deleted_takes_running_jobs_along(scene: Scene) -> None:
    for name in ("a", "b"):
        await scene.submit(job(name, {"worker": group(FOREVER, 2, restartPolicy="Always")}))
        await scene.until_phase(name, "Running")
    await scene.delete_namespace()
    assert processes_marked(scene.namespace) == {}
