"""Groups grow and shrink while they run, and that is never a failure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_attempt, per_rank
from tests.scenarios.scene import JOBS, Scene

RULES: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "All", "restartLimit": 0}


def elastic(replicas: int, script: str = FOREVER, **fields: Any) -> Manifest:
    return job("t", {"worker": group(script, replicas, **{**RULES, **fields})})


async def scale(scene: Scene, size: int) -> None:
    """What `kubectl scale` does."""
    await scene.edit("t", {"spec": {"replicas": size}}, subresource="scale")


async def edit_replicas(scene: Scene, size: int) -> None:
    await scene.edit("t", {"spec": {"replicaSpecs": {"worker": {"replicas": size}}}})


async def until_size(scene: Scene, size: int) -> None:
    """Wait for exactly these members, each running and each with its service, and for the words about it."""
    names = {f"t-worker-{index}" for index in range(size)}
    await scene.until(lambda: set(scene.pods) == set(scene.services) == names, f"{size} members")
    await scene.until(lambda: scene.status("t").get("ready") == f"{size}/{size}", f"{size} of {size} ready")


def uids(scene: Scene) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}


@pytest.mark.on_real
async def test_a_job_follows_the_scale_subresource_up_and_down(scene: Scene) -> None:
    await scene.submit(elastic(1))
    await until_size(scene, 1)
    await scale(scene, 3)
    await until_size(scene, 3)
    grown = uids(scene)
    told = await scene.client.get(JOBS, scene.namespace, "t", subresource="scale")
    assert told["spec"]["replicas"] == told["status"]["replicas"] == 3
    uid = scene.job("t")["metadata"]["uid"]
    assert told["status"]["selector"] == f"TrainingJobName=t,pliant/job-uid={uid},TrainingJobReplicaName=worker"

    await scale(scene, 2)
    await until_size(scene, 2)
    assert uids(scene) == {name: uid for name, uid in grown.items() if name != "t-worker-2"}
    assert scene.phases("t")[-1] == "Running"
    assert scene.status("t")["RestartCount"] == {"worker": 0}


async def test_a_job_follows_its_replicas_up_and_down(scene: Scene) -> None:
    await scene.submit(elastic(2))
    await until_size(scene, 2)
    first = uids(scene)
    await edit_replicas(scene, 4)
    await until_size(scene, 4)
    assert first.items() <= uids(scene).items()
    await edit_replicas(scene, 1)
    await until_size(scene, 1)
    assert uids(scene).items() <= first.items()
    assert "Restarting" not in scene.phases("t")


async def test_a_size_changed_back_at_once_settles_on_the_last_word(scene: Scene) -> None:
    await scene.submit(elastic(3))
    await until_size(scene, 3)
    rank0 = uids(scene)["t-worker-0"]
    for index in (1, 2):
        scene.excuse(f"t-worker-{index}")
    for size in (1, 3, 1, 4, 2):
        await scale(scene, size)
    await until_size(scene, 2)
    assert uids(scene)["t-worker-0"] == rank0
    assert scene.status("t")["RestartCount"] == {"worker": 0}


async def test_the_bounds_of_a_group_stand_above_what_is_asked(scene: Scene) -> None:
    await scene.submit(elastic(2, minReplicas=1, maxReplicas=3))
    await until_size(scene, 2)
    await scale(scene, 9)
    await until_size(scene, 3)
    await scale(scene, 0)
    await until_size(scene, 1)


async def test_a_job_that_shrinks_to_those_who_are_done_has_done_its_work(scene: Scene) -> None:
    await scene.submit(elastic(2, per_rank("exit 0", FOREVER)))
    await scene.until(lambda: scene.status("t").get("ready") == "1/2", "one member done and one at work")
    await scale(scene, 1)
    await scene.until_phase("t", "Succeed")


async def test_growing_in_the_middle_of_a_restart_loses_nothing(scene: Scene) -> None:
    script = per_attempt("sleep 0.1; exit 3", FOREVER)
    await scene.submit(elastic(2, script, restartLimit=2))
    await scene.until_phase("t", "Restarting")
    await scale(scene, 4)
    await until_size(scene, 4)
    assert {pod["metadata"]["labels"]["RestartCount"] for pod in scene.pods.values()} == {"1"}


async def test_members_that_leave_with_an_error_are_no_failure(scene: Scene) -> None:
    grudging = "trap 'exit 9' TERM; while :; do sleep 0.05; done"
    await scene.submit(elastic(3, grudging, restartPolicy="Never"))
    await until_size(scene, 3)
    await scale(scene, 1)
    await until_size(scene, 1)
    assert scene.phases("t")[-1] == "Running"
    assert scene.status("t")["RestartCount"] == {"worker": 0}
