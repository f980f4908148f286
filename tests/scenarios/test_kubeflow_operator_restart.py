"""Kubeflow's jobs when operators die, and when another operator's jobs become ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from tests.scenarios.cluster import OperatorProcess, Site, operator, without_operator
from tests.scenarios.jobs import Manifest
from tests.scenarios.kubeflow import KubeflowScene, members, on_paper, running, uids
from tests.scenarios.nodes import Ends, Runs
from tests.scenarios.scene import Scene


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    with without_operator(ground) as started:
        yield started


@pytest.fixture
def worker(site: Site) -> Iterator[OperatorProcess]:
    """An operator at work."""
    with operator(site) as process:
        process.start()
        yield process


async def _made_again(scene: Scene, pod: str) -> None:
    await scene.until(lambda: len(scene.attempts(pod)) == 2, f"another {pod}")


@pytest.mark.deep  # test_sampled_kills.py counts restarts over kills by default
async def test_restarts_are_counted_over_the_death_of_operators(client: KubeClient, worker: OperatorProcess) -> None:
    async with on_paper(client) as (scene, nodes):
        groups = {"Master": members(nodes), "Worker": members(nodes)}
        await scene.submit(scene.manifest("t", groups, runPolicy={"backoffLimit": 2}))
        await scene.until_phase("t", "Running")
        for member in ("t-master-0", "t-worker-0"):
            worker.kill()
            nodes.order(member, Ends(1))
            worker.start()
            await _made_again(scene, member)
            await scene.until_phase("t", "Running")
        survivors = uids(scene, "t")
        worker.kill()
        worker.start()
        nodes.order("t-master-0", Ends(1))
        await scene.until_phase("t", "Failed")
        assert uids(scene, "t") == survivors
        assert (scene.attempts("t-master-0"), scene.attempts("t-worker-0")) == (["0", "1"], ["0", "1"])


async def test_a_finished_job_is_not_trained_again_by_the_next_operator(
    client: KubeClient, worker: OperatorProcess
) -> None:
    async with on_paper(client, "JAXJob") as (scene, nodes):
        nodes.scripts["t"] = [Ends(0)]
        fields = {"runPolicy": {"cleanPodPolicy": "All"}}
        await scene.submit(scene.manifest("t", {"Worker": members(nodes, 2)}, **fields))
        await scene.until_phase("t", "Succeeded")
        await scene.until(lambda: not uids(scene, "t"), "nothing left")
        worker.kill()
        worker.start()
        await scene.submit(scene.manifest("u", {"Worker": members(nodes)}))
        await scene.until_phase("u", "Running")
        assert not uids(scene, "t")
        assert scene.phase("t") == "Succeeded"


async def _begun_elsewhere(scene: KubeflowScene, groups: dict[str, Manifest]) -> None:
    """A job with a pod for each group, as another operator leaves it."""
    job = await scene.submit(scene.manifest("t", groups))
    created = {"type": "Created", "status": "True", "reason": "PyTorchJobCreated", "message": "created"}
    status = {"status": {"conditions": [created], "startTime": job["metadata"]["creationTimestamp"]}}
    await scene.edit("t", status, subresource="status")
    words = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": "t", "uid": job["metadata"]["uid"]}
    for name, group in groups.items():
        labels = {
            "training.kubeflow.org/job-name": "t",
            "training.kubeflow.org/replica-type": name.lower(),
            "training.kubeflow.org/replica-index": "0",
        }
        meta = {"name": f"t-{name.lower()}-0", "labels": labels, "ownerReferences": [{**words, "controller": True}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": group["template"]["spec"]}
        scene.excuse(f"t-{name.lower()}-0")  # it bears no attempt
        await scene.client.create(PODS, scene.namespace, pod)
    await scene.until(lambda: len(running(scene, "t")) == len(groups), "the other operator's pods")


async def test_what_another_operator_began_goes_on(client: KubeClient, worker: OperatorProcess) -> None:
    worker.kill()
    async with on_paper(client) as (scene, nodes):
        groups = {"Master": members(nodes), "Worker": members(nodes)}
        nodes.behaviour = lambda _: Runs()
        await _begun_elsewhere(scene, groups)
        before = uids(scene, "t")
        worker.start()
        await scene.until_phase("t", "Running")
        assert uids(scene, "t") == before
        await scene.until(lambda: set(scene.services) == set(before), "names for all")
        nodes.order("t-master-0", Ends(0))
        await scene.until_phase("t", "Succeeded")
        assert uids(scene, "t") == before
