"""What others do to a job and its members while it runs."""

from __future__ import annotations

import pytest

from pliant.kube.codec import WatchEventType
from pliant.kube.resources import PODS, SERVICES
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.messages import name_conflict
from tests.scenarios.scene import JOBS, Scene

pytestmark = pytest.mark.on_real

STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"
JSON_PATCH = "application/json-patch+json"


def times_made(scene: Scene, kind: str, name: str) -> int:
    made = [change for change in scene.history if (change.kind, change.name) == (kind, name)]
    return sum(change.type is WatchEventType.ADDED for change in made)


async def test_a_pod_of_somebody_else_in_the_way_is_named_and_left_alone(scene: Scene) -> None:
    spec = group(FOREVER)["template"]["spec"]
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "t-worker-0"}, "spec": spec}
    made = await scene.client.create(PODS, scene.namespace, foreign)
    await scene.submit(job("t", {"worker": group("exit 0")}))
    told = ("t-worker-0", "exists and belongs to no job")
    await scene.until(lambda: name_conflict(scene.message("t")) == told, "the name in the way told")
    assert scene.pods["t-worker-0"]["metadata"]["uid"] == made["metadata"]["uid"]
    await scene.client.delete(PODS, scene.namespace, "t-worker-0")
    await scene.until_phase("t", "Succeed")


async def test_a_service_deleted_by_hand_comes_back(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    await scene.client.delete(SERVICES, scene.namespace, "t-worker-1")
    await scene.until(lambda: times_made(scene, "Service", "t-worker-1") == 2, "the service back")
    assert times_made(scene, "Pod", "t-worker-1") == 1


async def test_a_pod_deleted_by_force_comes_back_once(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(STUBBORN, 2)}))
    await scene.until_phase("t", "Running")
    scene.excuse("t-worker-1")
    await scene.client.delete(PODS, scene.namespace, "t-worker-1", grace_period_seconds=0)
    await scene.until(lambda: times_made(scene, "Pod", "t-worker-1") == 2, "the pod back")
    await scene.until(lambda: scene.pods["t-worker-1"]["status"]["phase"] == "Running", "the pod running again")
    assert scene.status("t")["RestartCount"] == {"worker": 0}


async def test_a_job_ends_only_when_its_last_pod_is_really_gone(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group("sleep 0.3", 2)}))
    await scene.until_phase("t", "Running")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await scene.client.patch(PODS, scene.namespace, "t-worker-1", held)
    await scene.until(lambda: scene.phase("t") == "Terminating" and list(scene.pods) == ["t-worker-1"], "one pod left")
    await scene.client.patch(PODS, scene.namespace, "t-worker-1", {"metadata": {"finalizers": None}})
    await scene.until_phase("t", "Succeed")
    assert scene.pods == {}


async def test_jobs_whose_members_would_share_a_name_take_turns(scene: Scene) -> None:
    await scene.submit(job("a", {"b-c": group("sleep 0.3")}))
    await scene.until(lambda: scene.pods, "a pod of the first job")
    await scene.submit(job("a-b", {"c": group("exit 0")}))
    await scene.until_phase("a", "Succeed")
    await scene.until_phase("a-b", "Succeed")
    assert times_made(scene, "Pod", "a-b-c-0") == 2


async def test_groups_may_come_and_go_while_a_job_is_suspended(scene: Scene) -> None:
    await scene.submit(job("t", {"a": group(FOREVER, 2), "b": group(FOREVER)}))
    await scene.until_phase("t", "Running")
    await scene.edit("t", {"spec": {"suspend": True}})
    await scene.until(lambda: scene.phase("t") == "Suspended" and not scene.pods, "everybody gone")
    await scene.edit("t", {"spec": {"replicaSpecs": {"b": None, "c": group(FOREVER)}, "suspend": False}})
    await scene.until(lambda: set(scene.status("t")["replicaStatuses"]) == {"a", "c"}, "the new group told of")
    await scene.until(lambda: scene.status("t")["ready"] == "3/3", "everybody running")
    assert scene.attempts("t-a-0") == ["0", "1"]
    assert scene.attempts("t-c-0") == ["0"]
    assert scene.status("t")["RestartCount"] == {"a": 0, "c": 0}


async def test_a_job_that_ended_does_not_care_about_its_spec(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group("exit 0", 2)}, cleanPodPolicy="None"))
    await scene.until_phase("t", "Succeed")
    await scene.edit("t", {"spec": {"replicas": 4}}, subresource="scale")
    await scene.edit("t", {"spec": {"cleanPodPolicy": "All"}})
    await scene.until(lambda: not scene.pods and not scene.services, "pods and services cleared after all")
    assert scene.phase("t") == "Succeed"
    assert scene.made("t-worker-2") == []


async def test_a_job_whose_status_is_wiped_keeps_its_members(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    wipe = [{"op": "remove", "path": "/status"}]
    await scene.client.patch(JOBS, scene.namespace, "t", wipe, content_type=JSON_PATCH, subresource="status")
    await scene.until(lambda: scene.phases("t").count("Running") == 2, "the job told as running again")
    assert times_made(scene, "Pod", "t-worker-0") == times_made(scene, "Pod", "t-worker-1") == 1


async def test_pods_left_on_purpose_belong_to_nobody(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    await scene.client.delete(JOBS, scene.namespace, "t", propagation="Orphan")
    await scene.until(lambda: not scene.job("t"), "the job gone")
    await scene.submit(job("later", {"worker": group("exit 0")}))
    await scene.until_phase("later", "Succeed")
    assert {pod["status"]["phase"] for pod in scene.pods.values()} == {"Running"}
    assert set(scene.pods) == {"t-worker-0", "t-worker-1"}


def uids(scene: Scene) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}


async def orphan(scene: Scene, name: str) -> None:
    await scene.client.delete(JOBS, scene.namespace, name, propagation="Orphan")
    await scene.until(lambda: not scene.job(name), "the job gone")


async def test_pods_left_on_purpose_are_adopted_by_the_same_job_and_in_the_way_of_another(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    before = uids(scene)
    await orphan(scene, "t")
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    assert uids(scene) == before

    await orphan(scene, "t")
    await scene.submit(job("t", {"worker": group("sleep 60", 2)}))
    conflict = ("t-worker-0", "exists, belongs to no job and has another template")
    await scene.until(lambda: name_conflict(scene.message("t")) == conflict, "the conflict told")
    assert uids(scene) == before
    for pod in before:
        await scene.client.delete(PODS, scene.namespace, pod)
    await scene.until_phase("t", "Running")
    assert not set(uids(scene).values()) & set(before.values())
