"""Jobs that cannot start yet say what they wait for, and start as soon as it is there."""

from __future__ import annotations

import pytest

from pliant.kube.resources import CONFIG_MAPS, NODES, RESOURCE_QUOTAS
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.messages import create_errors, exited, start_problems, text_of
from tests.scenarios.nodes import PAPER, Ends, Runs, Stuck, paper_nodes
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


@pytest.mark.on_real
async def test_a_missing_claim_is_the_first_thing_that_is_told(scene: Scene) -> None:
    worker = group(FOREVER, 2)
    spec = worker["template"]["spec"]
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    async with paper_nodes(scene):  # a scheduler without nodes looks for no claims
        await scene.submit(job("t", {"worker": worker}))
        await scene.until(lambda: '"data" not found' in problem(scene, "t"), "the missing claim told")
        assert '"data" not found' in scene.status("t")["message"].split(";")[0]


@pytest.mark.on_real
async def test_an_image_that_cannot_be_pulled_is_the_first_cause_of_what_follows(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        no_image = Stuck("ImagePullBackOff", 'Back-off pulling image "trian:1"')
        nodes.behaviour = lambda pod: no_image if pod["metadata"]["name"] == "t-worker-0" else Runs()
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 2))}))
        await scene.until(lambda: "trian:1" in problem(scene, "t"), "the image named")
        # The other replica waits for the first one until it gives up.
        nodes.order("t-worker-1", Ends(1))
        await scene.until_phase("t", "Failed")
        status = scene.status("t")
        assert (status["rootCause"]["replica"], status["rootCause"]["reason"]) == ("worker-0", "ImagePullBackOff")
        first, second = scene.message("t").details
        assert "trian:1" in text_of(first, "problem")
        assert second == exited("worker-1", 1)
        assert [each["replica"] for each in status["failures"]] == ["worker-1"]


@pytest.mark.on_real
async def test_a_job_waits_for_its_quota_and_runs_when_it_is_raised(scene: Scene) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota"},
        "spec": {"hard": {"pods": "0"}},
    }
    await scene.client.create(RESOURCE_QUOTAS, scene.namespace, quota)
    await quota_in_effect(scene)
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = lambda pod: Ends(0)
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 2))}))
        refusal = "exceeded quota: quota, requested: pods=1, used: pods=0, limited: pods=0"
        await scene.until(
            lambda: any(refusal in each for each in create_errors(scene.message("t")).values()), "the quota named"
        )
        assert scene.phase("t") == "Pending"
        raised = {"spec": {"hard": {"pods": "2"}}}
        await scene.client.patch(RESOURCE_QUOTAS, scene.namespace, "quota", raised)
        await scene.until_phase("t", "Succeed")


async def quota_in_effect(scene: Scene) -> None:
    """Wait until the usage of the quota is known: before, it limits nothing."""
    async for change in scene.client.watch(RESOURCE_QUOTAS, scene.namespace, resource_version="0"):
        if change.object is not None and "used" in (change.object.get("status") or {}):
            return


async def test_one_member_without_a_place_keeps_the_job_from_running(scene: Scene) -> None:
    far = group(FOREVER)
    far["template"]["spec"]["nodeSelector"] = {"no-such-label": "true"}
    await scene.submit(job("t", {"near": group(FOREVER, 2), "far": far}))
    await scene.until(lambda: problem(scene, "t", "far-0").startswith("Unschedulable"), "the member named")
    assert scene.phase("t") == "Pending"
    assert scene.status("t")["ready"] == "2/3"
    assert "startRunningTime" not in scene.status("t")
