"""Nodes on paper do what tests ask of them, whichever server they are written down in."""

from __future__ import annotations

from typing import Any

from pliant.kube.resources import NODES, PODS
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.nodes import GPU_FAULT, STUCK_REASONS, Ends, PaperNodes, Runs, Stuck, attempt, paper_nodes
from tests.scenarios.scene import Scene


async def a_pod(scene: Scene, nodes: PaperNodes, name: str, **fields: Any) -> None:
    """A pod of nobody, for these nodes."""
    container = {"name": "main", "image": "paper", "command": ["true"]}
    spec = {**nodes.fields, "containers": [container], **fields}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await scene.client.create(PODS, scene.namespace, body)


def phase(scene: Scene, pod: str) -> str:
    return str((scene.pods.get(pod, {}).get("status") or {}).get("phase") or "")


def is_leaving(scene: Scene, pod: str) -> bool:
    return "deletionTimestamp" in scene.pods.get(pod, {}).get("metadata", {})


def waits_because(scene: Scene, pod: str) -> str:
    statuses = (scene.pods.get(pod, {}).get("status") or {}).get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))


def is_unschedulable(scene: Scene, pod: str) -> bool:
    conditions = (scene.pods.get(pod, {}).get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == "Unschedulable" for each in conditions)


async def conditions(scene: Scene, node: str) -> dict[str, str]:
    found = await scene.client.get(NODES, None, node)
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


async def test_a_job_runs_on_paper(scene: Scene) -> None:
    async with paper_nodes(scene, 2, gpus=1) as nodes:
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 2), gpus=1)}))
        await scene.until_phase("t", "Running")
        assert {nodes.of("t-worker-0"), nodes.of("t-worker-1")} == set(nodes.names)
        nodes.order("t-worker-0", Ends(0))
        nodes.order("t-worker-1", Ends(0))
        await scene.until_phase("t", "Succeed")
    assert not (await scene.client.list(NODES, labels=f"pliant.test/paper={nodes.mark}")).items


async def test_pods_end_as_scripted(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = lambda pod: Ends(3) if attempt(pod) == 0 else Runs()
        worker = group(FOREVER, restartPolicy="OnFailure", restartLimit=1)
        await scene.submit(job("t", {"worker": nodes.place(worker)}))
        await scene.until(lambda: scene.attempts("t-worker-0") == ["0", "1"], "another attempt")
        await scene.until_phase("t", "Running")


async def test_every_reason_to_be_stuck_is_told(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = lambda pod: Stuck(STUCK_REASONS[int(pod["metadata"]["name"])])
        for number in range(len(STUCK_REASONS)):
            await a_pod(scene, nodes, str(number))
        wanted = list(STUCK_REASONS)
        await scene.until(lambda: [waits_because(scene, str(n)) for n in range(len(wanted))] == wanted, "each told")
        nodes.order("0", Runs())
        await scene.until(lambda: phase(scene, "0") == "Running", "a pod that is stuck no more")


async def test_nobody_takes_pods_away_from_a_dead_node(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        await a_pod(scene, nodes, "a", nodeName=nodes.names[0])
        await a_pod(scene, nodes, "b", nodeName=nodes.names[1])
        await scene.until(lambda: phase(scene, "a") == phase(scene, "b") == "Running", "both running")
        await nodes.not_ready(nodes.names[0])
        for name in ("a", "b"):
            await scene.client.delete(PODS, scene.namespace, name)
        await scene.until(lambda: "b" not in scene.pods, "the pod of the living node gone")
        await scene.until(lambda: is_leaving(scene, "a"), "the pod of the dead one leaving")
        await scene.client.delete(PODS, scene.namespace, "a", grace_period_seconds=0)
        await scene.until_gone()


async def test_a_node_that_comes_back_finishes_what_was_asked(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await a_pod(scene, nodes, "a")
        await scene.until(lambda: phase(scene, "a") == "Running", "it running")
        await nodes.not_ready(nodes.names[0])
        await a_pod(scene, nodes, "b")
        await scene.until(lambda: is_unschedulable(scene, "b"), "no place for another")
        await scene.client.delete(PODS, scene.namespace, "a")
        await scene.until(lambda: is_leaving(scene, "a"), "it leaving")
        await nodes.ready(nodes.names[0])
        await scene.until(lambda: "a" not in scene.pods and phase(scene, "b") == "Running", "one gone, one come")


async def test_pods_avoid_the_nodes_they_are_told_to(scene: Scene) -> None:
    async with paper_nodes(scene, 3) as nodes:
        bad, good, other = nodes.names
        avoided = {"key": "metadata.name", "operator": "NotIn", "values": [bad]}
        preference = {"weight": 100, "preference": {"matchFields": [avoided]}}
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
        for number in range(4):
            await a_pod(scene, nodes, f"a{number}", affinity=affinity)
        await scene.until(lambda: all(nodes.of(f"a{number}") for number in range(4)), "all placed")
        assert bad not in {nodes.of(f"a{number}") for number in range(4)}
        for name in (good, other):
            await nodes.not_ready(name, dead=False)
        await a_pod(scene, nodes, "b", affinity=affinity)
        await scene.until(lambda: phase(scene, "b") == "Running", "it running where it must")
        assert nodes.of("b") == bad


async def test_pods_are_driven_out_of_a_node(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        patient = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
        tolerations = [*nodes.fields["tolerations"], patient]
        await a_pod(scene, nodes, "stays", tolerations=tolerations)
        await a_pod(scene, nodes, "leaves")
        await scene.until(lambda: phase(scene, "stays") == phase(scene, "leaves") == "Running", "both running")
        await nodes.taint(nodes.names[0], "broken", "NoExecute")
        await scene.until(lambda: "leaves" not in scene.pods, "the pod driven out")
        last = [change.object for change in scene.history if change.name == "leaves"][-1]
        reasons = {each["type"]: each.get("reason") for each in last["status"]["conditions"]}
        assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
        assert phase(scene, "stays") == "Running"
        assert not is_leaving(scene, "stays")


async def test_pods_stay_when_their_node_is_deleted(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await a_pod(scene, nodes, "a")
        await scene.until(lambda: phase(scene, "a") == "Running", "it running")
        await nodes.delete(nodes.names[0])
        await nodes.until(nodes.names[0], lambda node: node is None)
        await scene.client.delete(PODS, scene.namespace, "a")
        await scene.until(lambda: is_leaving(scene, "a"), "it leaving")
        await nodes.restore(nodes.names[0])
        await scene.until_gone()


async def test_a_fault_is_told_until_it_is_healed(scene: Scene) -> None:
    async with paper_nodes(scene, gpus=2) as nodes:
        node = nodes.names[0]
        await nodes.gpu_fault(node)
        await nodes.taint(node, "gpu-fault")
        assert (await conditions(scene, node))[GPU_FAULT] == "True"
        assert (await conditions(scene, node))["Ready"] == "True"
        await a_pod(scene, nodes, "a")
        await scene.until(lambda: is_unschedulable(scene, "a"), "the taint keeping it away")
        await nodes.heal(node)
        await scene.until(lambda: phase(scene, "a") == "Running", "it running")
        assert (await conditions(scene, node))[GPU_FAULT] == "False"
