"""Whose end is the job's, for every kind of kubeflow.org."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.kube.client import KubeClient
from tests.scenarios.kubeflow import KINDS, members, on_paper, uids
from tests.scenarios.nodes import Ends, PaperNodes
from tests.scenarios.scene import Scene

# Sizes, fields of the spec, members that end well one after the other: with the last of them the job ends.
RULES: dict[str, tuple[str, dict[str, int], dict[str, Any], list[str]]] = {
    "the master of a PyTorchJob": ("PyTorchJob", {"Master": 1, "Worker": 2}, {}, ["worker-1", "master-0"]),
    "all workers of a PyTorchJob": ("PyTorchJob", {"Worker": 2}, {}, ["worker-0", "worker-1"]),
    "any worker of an elastic PyTorchJob": ("PyTorchJob", {"Worker": 2}, {"elasticPolicy": {}}, ["worker-1"]),
    "the chief of a TFJob": ("TFJob", {"Chief": 1, "Worker": 1, "PS": 1}, {}, ["worker-0", "ps-0", "chief-0"]),
    "the first worker of a TFJob": ("TFJob", {"Worker": 2, "Evaluator": 1}, {}, ["evaluator-0", "worker-0"]),
    "all workers of a TFJob": ("TFJob", {"Worker": 2}, {"successPolicy": "AllWorkers"}, ["worker-0", "worker-1"]),
    "all workers of an MXJob": ("MXJob", {"Scheduler": 1, "Worker": 2}, {}, ["worker-1", "worker-0"]),
    "the tuner of an MXJob": ("MXJob", {"TunerTracker": 1, "Tuner": 1}, {"jobMode": "MXTune"}, ["tuner-0"]),
    "the master of an XGBoostJob": ("XGBoostJob", {"Master": 1, "Worker": 1}, {}, ["worker-0", "master-0"]),
    "all workers of a PaddleJob": ("PaddleJob", {"Worker": 2}, {}, ["worker-0", "worker-1"]),
    "all workers of a JAXJob": ("JAXJob", {"Worker": 2}, {}, ["worker-1", "worker-0"]),
    "the launcher of an MPIJob": ("MPIJob", {"Launcher": 1, "Worker": 1}, {}, ["launcher"]),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_right_ones_end_a_job_well(client: KubeClient, kind: str) -> None:
    rules = {title: rule for title, rule in RULES.items() if rule[0] == kind}
    assert rules
    async with on_paper(client, kind) as (scene, nodes):
        names = {f"t{number}": rule for number, rule in enumerate(rules.values())}
        for name, (_, sizes, fields, _) in names.items():
            groups = {role: members(nodes, size) for role, size in sizes.items()}
            await scene.submit(scene.manifest(name, groups, **fields))
        for name, (_, _, _, ending) in names.items():
            await scene.until_phase(name, "Running")
            for member in ending:
                assert scene.phase(name) == "Running", f"{member} was not waited for"
                await _ended(scene, nodes, f"{name}-{member}")
            await scene.until_phase(name, "Succeeded")


async def _ended(scene: Scene, nodes: PaperNodes, pod: str) -> None:
    """Let a member end well, and wait for the news of it."""
    nodes.order(pod, Ends(0))
    gone: dict[str, Any] = {"status": {"phase": "Succeeded"}}
    await scene.until(lambda: scene.pods.get(pod, gone)["status"].get("phase") == "Succeeded", f"the end of {pod}")


async def test_workers_that_wait_for_a_launcher_go_with_it(client: KubeClient) -> None:
    async with on_paper(client, "MPIJob") as (scene, nodes):
        await scene.submit(scene.manifest("t", {"Launcher": members(nodes), "Worker": members(nodes, 2)}))
        await scene.until_phase("t", "Running")
        assert set(uids(scene, "t")) == {"t-launcher", "t-worker-0", "t-worker-1"}
        nodes.order("t-launcher", Ends(0))
        await scene.until_phase("t", "Succeeded")
        await scene.until(lambda: set(uids(scene, "t")) == {"t-launcher"}, "the launcher's pod alone")


async def test_dynamic_workers_fail_one_by_one(client: KubeClient) -> None:
    async with on_paper(client, "TFJob") as (scene, nodes):
        groups = {"Chief": members(nodes), "Worker": members(nodes, 2)}
        await scene.submit(scene.manifest("t", groups, enableDynamicWorker=True))
        await scene.submit(scene.manifest("u", groups))
        for name in ("t", "u"):
            await scene.until_phase(name, "Running")
            nodes.order(f"{name}-worker-0", Ends(1))
        await scene.until_phase("u", "Failed")
        await scene.until(lambda: scene.status("t")["replicaStatuses"]["Worker"].get("failed") == 1, "a failure")
        assert scene.phase("t") == "Running"
        nodes.order("t-chief-0", Ends(0))
        await scene.until_phase("t", "Succeeded")
