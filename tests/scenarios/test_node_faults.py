"""Nodes that fail, vanish or lose a GPU: whose members are given up, and where they come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pliant.kube.codec import WatchEventType
from pliant.model.messages import MessageReason
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.messages import failed, lost, start_problems, text_of
from tests.scenarios.nodes import Ends, PaperNodes, Runs, attempt, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_all, expect_rows, place_of

RULES: dict[str, Any] = {"restartPolicy": "OnNodeFail", "restartScope": "Pod"}
Fault = Callable[[PaperNodes, str], Awaitable[None]]

NODE_FAULTS: dict[str, tuple[Fault, str]] = {
    "silent": (lambda nodes, node: nodes.not_ready(node), "is not ready (NodeStatusUnknown)"),
    "unwell": (lambda nodes, node: nodes.not_ready(node, dead=False), "is not ready (KubeletNotReady)"),
    "deleted": (lambda nodes, node: nodes.delete(node), "is gone"),
    "retired": (
        lambda nodes, node: nodes.taint(node, "node.kubernetes.io/out-of-service", value="nodeshutdown"),
        "is out of service",
    ),
}
DEVICE_FAULTS: dict[str, tuple[Fault, str]] = {
    "condition": (
        lambda nodes, node: nodes.gpu_fault(node),
        "has a device fault (GPUUnhealthy: GPU 0 has fallen off the bus)",
    ),
    "kernel": (
        lambda nodes, node: nodes.gpu_fault(node, "NvidiaXidError"),
        "has a device fault (NvidiaXidError: GPU 0 has fallen off the bus)",
    ),
    "taint": (
        lambda nodes, node: nodes.taint(node, "nvidia.com/gpu-unhealthy", value="xid-79"),
        "has a device fault (taint nvidia.com/gpu-unhealthy)",
    ),
}


def with_and_without(nodes: PaperNodes, **fields: Any) -> dict[str, Manifest]:
    """A member with a GPU, and one without."""
    rules = {**RULES, **fields}
    return {"gpu": nodes.place(group(FOREVER, **rules), gpus=1), "cpu": nodes.place(group(FOREVER, **rules))}


async def test_members_of_a_bad_node_come_back_elsewhere_if_the_fault_concerns_them(scene: Scene) -> None:
    faults = {**NODE_FAULTS, **DEVICE_FAULTS}
    async with paper_nodes(scene, len(faults) + 1, gpus=8) as nodes:
        *bad, good = nodes.names
        of_job = dict(zip(faults, bad, strict=True))
        seated = nodes.seat(lambda pod: of_job[place_of(pod)[0]] if attempt(pod) == 0 else good)
        for name in faults:
            await scene.submit(job(name, with_and_without(nodes), **seated))
        await expect_rows(scene, dict.fromkeys(faults, "2/2"), lambda name: scene.status(name).get("ready", ""))
        for name, (strike, _) in faults.items():
            await strike(nodes, of_job[name])
        costs = {name: {"gpu": 1, "cpu": int(name in NODE_FAULTS)} for name in faults}
        await expect_rows(
            scene,
            {name: ("Running", "2/2", cost) for name, cost in costs.items()},
            lambda name: (scene.phase(name), *(scene.status(name)[word] for word in ("ready", "RestartCount"))),
        )
        tried = {f"{name}-{which}-0": ["0", "1"][: n + 1] for name in faults for which, n in costs[name].items()}
        await expect_all(scene, tried, lambda: attempts_of_all(scene))
        for name, (_, fault) in faults.items():
            assert lost("gpu-0", of_job[name], fault) in scene.events(name)["Restarting"].details, name


@pytest.mark.on_real
async def test_pods_of_dead_nodes_are_let_go_at_once_and_others_in_good_order(scene: Scene) -> None:
    async with paper_nodes(scene, 3, gpus=8) as nodes:
        dead, faulty, good = nodes.names
        first = {"dead": dead, "faulty": faulty}
        seated = nodes.seat(lambda pod: first[place_of(pod)[0]] if attempt(pod) == 0 else good)
        for name in first:
            await scene.submit(job(name, {"gpu": with_and_without(nodes)["gpu"]}, **seated))
        await expect_rows(scene, dict.fromkeys(first, "Running"), scene.phase)
        await nodes.not_ready(dead)
        await nodes.gpu_fault(faulty)
        await expect_rows(
            scene, {name: ["0", "1"] for name in first}, lambda name: attempts_of_all(scene)[f"{name}-gpu-0"]
        )
        assert grace_of(scene, "faulty-gpu-0") == 1
        assert grace_of(scene, "dead-gpu-0") in (0, None)


def grace_of(scene: Scene, name: str) -> int | None:
    """How long the first pod of a name was given to leave, as far as anybody said."""
    for change in scene.history:
        if change.kind == "Pod" and change.name == name and "deletionTimestamp" in change.object["metadata"]:
            said = change.object["metadata"].get("deletionGracePeriodSeconds")
            return None if said is None else int(said)
        if change.kind == "Pod" and change.name == name and change.type is WatchEventType.DELETED:
            return None
    raise AssertionError(f"{name} never left")


async def test_a_job_that_may_not_be_restarted_ends_with_its_node_and_leaves_nothing(scene: Scene) -> None:
    async with paper_nodes(scene, 2, gpus=8) as nodes:
        dead, good = nodes.names
        seated = nodes.seat(lambda pod: dead if place_of(pod)[1] == "gpu-0" else good)
        groups = with_and_without(nodes, restartPolicy="Never")
        await scene.submit(job("t", groups, cleanPodPolicy="None", **seated))
        await scene.until_phase("t", "Running")
        await nodes.not_ready(dead)
        status = await scene.until_phase("t", "NodeFail")
        assert scene.message("t") == failed(lost("gpu-0", dead, "is not ready (NodeStatusUnknown)"))
        assert status["reason"] == "TrainingJobNodeFail"
        await scene.until(lambda: not scene.pods and not scene.services, "nothing left")


async def test_a_group_that_need_not_fail_goes_on_without_the_lost(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        dead, good = nodes.names
        seated = nodes.seat(lambda pod: dead if place_of(pod)[1] == "worker-1" else good)
        worker = nodes.place(group(FOREVER, 2, failPolicy="Rank0"))
        await scene.submit(job("t", {"worker": worker}, **seated))
        await scene.until_phase("t", "Running")
        await nodes.not_ready(dead)
        await scene.until(lambda: scene.status("t")["replicaStatuses"]["worker"].get("failed") == 1, "the loss told")
        assert scene.phase("t") == "Running"
        assert [text_of(each, "replica") for each in scene.message("t").details] == ["worker-1"]


async def test_a_node_that_is_back_in_time_costs_nobody_anything(scene: Scene) -> None:
    async with paper_nodes(scene, 4, gpus=8) as nodes:
        faults: dict[str, tuple[Fault, Fault]] = {
            "silent": (lambda nodes, node: nodes.not_ready(node), lambda nodes, node: nodes.ready(node)),
            "deleted": (lambda nodes, node: nodes.delete(node), lambda nodes, node: nodes.restore(node)),
            "faulty": (lambda nodes, node: nodes.gpu_fault(node), lambda nodes, node: nodes.heal(node)),
        }
        of_job = dict(zip([*faults, "gone"], nodes.names, strict=True))
        seated = nodes.seat(lambda pod: of_job[place_of(pod)[0]])
        for name in of_job:
            await scene.submit(job(name, with_and_without(nodes, restartPolicy="Never"), **seated))
        await expect_rows(scene, dict.fromkeys(of_job, "Running"), scene.phase)
        for name, (strike, mend) in faults.items():
            await strike(nodes, of_job[name])
            await mend(nodes, of_job[name])
        # One that stays away, from later on, tells when the others would have been given up.
        await nodes.not_ready(of_job["gone"])
        await scene.until_phase("gone", "NodeFail")
        assert {name: scene.phases(name)[-1] for name in faults} == dict.fromkeys(faults, "Running")
        assert {len(tried) for tried in attempts_of_all(scene).values()} == {1}


async def test_new_pods_avoid_a_node_with_a_broken_gpu_though_it_would_take_them(scene: Scene) -> None:
    async with paper_nodes(scene, 2, gpus=8) as nodes:
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 2, **RULES), gpus=4)}))
        await scene.until_phase("t", "Running")
        bad = nodes.of("t-worker-0")
        [good] = set(nodes.names) - {bad}
        await nodes.gpu_fault(bad)
        await scene.until(lambda: nodes.of("t-worker-0") == good, "the member on the good node")
        await scene.until(lambda: nodes.of("t-worker-1") == good, "the other one there, too")
        await scene.until(lambda: scene.status("t").get("ready") == "2/2", "all running")


@pytest.mark.on_real
async def test_new_pods_wait_for_a_node_whose_bad_gpu_nobody_names_and_cost_nothing(scene: Scene) -> None:
    async with paper_nodes(scene, 1, gpus=8) as nodes:
        [bad] = nodes.names
        await nodes.gpu_fault(bad)
        scene.excuse("gpu-worker-0")  # a pod that waits is recreated when the node is well again
        await scene.submit(job("gpu", {"worker": nodes.place(group(FOREVER, 1, **RULES), gpus=8)}))
        await scene.submit(job("cpu", {"worker": nodes.place(group(FOREVER, 1, **RULES))}))
        await scene.until_phase("cpu", "Running")
        await scene.until(lambda: "worker-0" in start_problems(scene.message("gpu")), "the job says that it waits")
        await asyncio.sleep(4)  # longer than the grace period
        assert scene.phase("gpu") == "Pending"
        await nodes.heal(bad)
        await scene.until_phase("gpu", "Running")
        assert not scene.status("gpu").get("RestartCount", {}).get("worker")
        assert {name for name, pod in scene.pods.items() if pod["spec"]["nodeName"] == bad} == {
            "gpu-worker-0",
            "cpu-worker-0",
        }


# The test before shows what a withdrawn device keeps away; tests/engine/test_node_faults.py has the cases.
@pytest.mark.deep
async def test_a_node_that_withdraws_a_bad_gpu_keeps_later_pods_and_those_with_good_ones(scene: Scene) -> None:
    async with paper_nodes(scene, 2, gpus=8) as nodes:
        bad, good = nodes.names
        seated = nodes.seat(lambda pod: bad if attempt(pod) == 0 else good)
        await scene.submit(job("early", {"gpu": with_and_without(nodes)["gpu"]}, **seated))
        await scene.until_phase("early", "Running")
        await asyncio.sleep(1)  # Kubernetes tells times in whole seconds
        await nodes.gpu_fault(bad, withdrawn=1)
        await asyncio.sleep(1)
        await scene.submit(job("late", {"gpu": with_and_without(nodes)["gpu"]}, **seated))
        await scene.until(lambda: nodes.of("early-gpu-0") == good, "the pod that was there is moved")
        await scene.until_phase("late", "Running")
        await asyncio.sleep(4)  # longer than the grace period
        assert (scene.phases("late")[-1], nodes.of("late-gpu-0")) == ("Running", bad)
        assert scene.attempts("late-gpu-0") == ["0"]


async def test_a_member_that_fails_on_a_failing_node_is_not_to_blame(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        failing, good = nodes.names
        seated = nodes.seat(lambda pod: failing if attempt(pod) == 0 else good)
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, **RULES))}, **seated))
        await scene.until_phase("t", "Running")
        await nodes.not_ready(failing, dead=False)
        nodes.order("t-worker-0", Ends(1))
        await scene.until(lambda: scene.status("t")["RestartCount"] == {"worker": 1}, "a restart")
        await scene.until_phase("t", "Running")
        [cause] = scene.events("t")["Restarting"].details
        assert (cause.reason, cause.parameters["node"]) == (MessageReason.REPLICA_EXITED, failing)
        assert text_of(cause, "fault").startswith("is not ready")


async def test_pods_already_leaving_do_not_hold_a_job_up_on_a_dead_node(scene: Scene) -> None:
    def behaviour(pod: Object) -> Runs | Ends:
        return Ends(3, 0.2) if place_of(pod)[1] == "worker-0" and attempt(pod) == 0 else Runs()

    async with paper_nodes(scene, 2) as nodes:
        dead, good = nodes.names
        nodes.behaviour = behaviour
        seated = nodes.seat(lambda pod: dead if place_of(pod)[1] == "worker-1" and attempt(pod) == 0 else good)
        rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "All", "restartLimit": 1}
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 2, **rules))}, **seated))
        # Its kubelet hangs: nobody confirms that the pod has stopped. Only then the node is known to be dead.
        await scene.until(lambda: nodes.of("t-worker-1") == dead, "a pod there")
        nodes.kubelet.abandon(dead)
        await scene.until_phase("t", "Restarting")
        await scene.until(lambda: "deletionTimestamp" in scene.pods["t-worker-1"]["metadata"], "a pod leaving")
        await nodes.not_ready(dead)
        await scene.until_phase("t", "Running")
        assert scene.status("t")["RestartCount"] == {"worker": 1}
