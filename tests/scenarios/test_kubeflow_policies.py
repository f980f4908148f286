"""The run policy of kubeflow.org's jobs, on a PyTorchJob: how often, how long, and what is left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pliant.kube.client import KubeClient
from tests.scenarios.jobs import Manifest
from tests.scenarios.kubeflow import KubeflowScene, members, on_paper, running, uids
from tests.scenarios.nodes import Ends, PaperNodes, Runs
from tests.scenarios.scene import Scene
from tests.scenarios.table import side_by_side


def job_of(scene: Scene, name: str, groups: dict[str, Manifest], **run: Any) -> Manifest:
    assert isinstance(scene, KubeflowScene)
    return scene.manifest(name, groups, runPolicy=run)


def a_job(scene: Scene, nodes: PaperNodes, name: str, rules: dict[str, Any] | None = None, **run: Any) -> Manifest:
    """A master and two workers."""
    groups = {"Master": members(nodes, 1, **(rules or {})), "Worker": members(nodes, 2, **(rules or {}))}
    return job_of(scene, name, groups, **run)


def last(scene: Scene, name: str) -> dict[str, Any]:
    return dict(scene.status(name)["conditions"][-1])


def attempts(scene: Scene, name: str) -> list[str]:
    return scene.attempts(f"{name}-master-0")


async def restarts_end_with_the_backoff_limit(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(1)]
    await scene.submit(job_of(scene, name, {"Master": members(nodes)}, backoffLimit=2))
    await scene.until_phase(name, "Failed")
    assert attempts(scene, name) == ["0", "1", "2"]
    assert scene.status(name)["completionTime"]


async def exit_codes_below_128_are_final(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(127)]
    await scene.submit(a_job(scene, nodes, name, {"restartPolicy": "ExitCode"}))
    await scene.until_phase(name, "Failed")
    assert attempts(scene, name) == ["0"]
    assert last(scene, name)["reason"] == "PyTorchJobFailed"


async def exit_codes_from_128_on_are_tried_again(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name, {"restartPolicy": "ExitCode"}))
    await scene.until_phase(name, "Running")
    before = uids(scene, name)
    nodes.order(f"{name}-worker-1", Ends(137))
    await scene.until(lambda: "Restarting" in scene.phases(name), "the restart")
    await scene.until_phase(name, "Running")
    after = uids(scene, name)
    assert {pod for pod in before if after[pod] != before[pod]} == {f"{name}-worker-1"}


async def never_means_never(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name, {"restartPolicy": "Never"}))
    await scene.until_phase(name, "Running")
    nodes.order(f"{name}-worker-0", Ends(137))
    await scene.until_phase(name, "Failed")


async def a_job_rests_and_goes_on(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name))
    await scene.until_phase(name, "Running")
    before = uids(scene, name)
    await scene.edit(name, {"spec": {"runPolicy": {"suspend": True}}})
    await scene.until_phase(name, "Suspended")
    await scene.until(lambda: not uids(scene, name), "no pods")
    assert last(scene, name)["reason"] == "PyTorchJobSuspended"
    await scene.edit(name, {"spec": {"runPolicy": {"suspend": False}}})
    await scene.until_phase(name, "Running")
    assert before.keys() == uids(scene, name).keys()
    truths = {each["type"]: each["status"] for each in scene.status(name)["conditions"]}
    assert truths == {"Created": "True", "Suspended": "False", "Running": "True"}


async def a_job_may_be_born_at_rest(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name, suspend=True))
    await scene.until_phase(name, "Suspended")
    assert not uids(scene, name)
    await scene.edit(name, {"spec": {"runPolicy": {"suspend": False}}})
    await scene.until_phase(name, "Running")


async def those_that_run_are_cleared_away(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name, cleanPodPolicy="Running"))
    await scene.until_phase(name, "Running")
    nodes.order(f"{name}-master-0", Ends(0))
    await scene.until_phase(name, "Succeeded")
    await scene.until(lambda: set(uids(scene, name)) == {f"{name}-master-0"}, "the master's pod alone")


async def nothing_is_cleared_away_by_default(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name))
    await scene.until_phase(name, "Running")
    nodes.order(f"{name}-master-0", Ends(0))
    await scene.until_phase(name, "Succeeded")
    assert len(uids(scene, name)) == 3


async def a_deadline_ends_a_job(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Runs(after=600)]
    await scene.submit(a_job(scene, nodes, name, activeDeadlineSeconds=2))
    await scene.until_phase(name, "Failed")
    assert last(scene, name)["reason"] == "DeadlineExceeded"
    status = scene.status(name)
    start, end = (datetime.fromisoformat(status[word]) for word in ("startTime", "completionTime"))
    assert (end - start).total_seconds() >= 2
    await scene.until(lambda: not uids(scene, name), "nothing left")


async def a_job_that_has_ended_goes_when_its_time_has_come(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(0)]
    await scene.submit(a_job(scene, nodes, name, ttlSecondsAfterFinished=1))
    await scene.until(lambda: "Succeeded" in scene.phases(name), "success")
    await scene.until(lambda: not scene.job(name) and not uids(scene, name), "nothing left")


async def what_others_manage_is_left_to_them(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name, managedBy="kueue.x-k8s.io/multikueue"))
    await scene.submit(a_job(scene, nodes, f"{name}x", managedBy="kubeflow.org/training-operator"))
    await scene.until_phase(f"{name}x", "Running")
    assert not uids(scene, name)
    assert not scene.status(name)


async def a_mistake_is_told_in_a_condition(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(job_of(scene, name, {"Wroker": members(nodes)}))
    await scene.until_phase(name, "Invalid")
    assert last(scene, name)["message"].startswith("spec.pytorchReplicaSpecs.Wroker: ")
    assert not running(scene, name)


async def test_the_run_policy_is_kept_to(client: KubeClient) -> None:
    async with on_paper(client) as (scene, nodes):
        await side_by_side(
            scene,
            nodes,
            restarts_end_with_the_backoff_limit,
            exit_codes_below_128_are_final,
            exit_codes_from_128_on_are_tried_again,
            never_means_never,
            a_job_rests_and_goes_on,
            a_job_may_be_born_at_rest,
            those_that_run_are_cleared_away,
            nothing_is_cleared_away_by_default,
            a_deadline_ends_a_job,
            a_job_that_has_ended_goes_when_its_time_has_come,
            what_others_manage_is_left_to_them,
            a_mistake_is_told_in_a_condition,
        )


async def a_refused_edit_leaves_a_job_in_good_hands(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(scene, nodes, name))
    await scene.until_phase(name, "Running")
    # The rules of the definition reject most other edits, where the server evaluates them.
    annotation = "pliant/service-per-replica"
    await scene.edit(name, {"metadata": {"annotations": {annotation: "maybe"}}})
    await scene.until(lambda: scene.rejection(name), "the condition")
    assert scene.rejection(name).startswith(f"metadata.annotations.{annotation}: ")
    assert last(scene, name)["type"] == "Running"
    before = uids(scene, name)
    await scene.delete_pod(f"{name}-worker-1")
    lost = f"{name}-worker-1"
    await scene.until(lambda: uids(scene, name).get(lost) not in (None, before[lost]), "another one in its place")
    await scene.edit(name, {"metadata": {"annotations": {annotation: None}}})
    await scene.until(lambda: not scene.rejection(name), "the condition gone")
    nodes.order(f"{name}-master-0", Ends(0))
    await scene.until_phase(name, "Succeeded")


@pytest.mark.on_real
async def test_a_job_is_never_abandoned(client: KubeClient) -> None:
    async with on_paper(client) as (scene, nodes):
        await side_by_side(scene, nodes, a_refused_edit_leaves_a_job_in_good_hands)
