"""Pods that the cluster takes away are replaced at no charge, whatever the restart policy."""

from __future__ import annotations

from itertools import product
from typing import Any

from pliant.kube.codec import WatchEventType
from pliant.model.messages import NO_MESSAGE, Message, MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.messages import exited, failed, limit_reached
from tests.scenarios.nodes import Behaviour, Ends, Evicted, PaperNodes, Runs, attempt, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_all, expect_rows, place_of

POLICIES = ("Always", "OnFailure", "OnNodeFail", "ExitCode", "OnNodeFailWithExitCode", "Never", "")
WORDS = {
    "Evicted": "was evicted",
    "Preempting": "was preempted",
    "NodeShutdown": "was terminated by the shutdown of its node",
    "Terminated": "was terminated by the shutdown of its node",
    "Shutdown": "was terminated by the shutdown of its node",
    "NodeRestarted": "ended with its node, which restarted",
}
"""What kubelets write as the reason of a pod that they have ended, and what is told of it."""


def a_job(nodes: PaperNodes, name: str, policy: str = "Never", **rules: Any) -> Manifest:
    named: dict[str, Any] = {"restartPolicy": policy} if policy else {}
    return job(name, {"worker": nodes.place(group(FOREVER, 2, **named, **{"restartLimit": 0, **rules}))})


def replaced(replica: str, words: str) -> Message:
    disruption = f"{words}: The node was low on resource: memory."
    cause = message(MessageReason.REPLICA_DISRUPTED, replica=replica, disruption=disruption)
    return message(MessageReason.DISRUPTED_REPLACED, [cause])


async def test_whoever_is_ended_by_its_node_comes_back_and_costs_nothing(scene: Scene) -> None:
    rows = {f"{policy or 'unset'}-{reason}".lower(): (policy, reason) for policy, reason in product(POLICIES, WORDS)}

    def behaviour(pod: Object) -> Behaviour:
        name, place = place_of(pod)
        return Evicted(rows[name][1]) if place == "worker-1" and attempt(pod) == 0 else Runs()

    async with paper_nodes(scene) as nodes:
        nodes.behaviour = behaviour
        for name, (policy, _) in rows.items():
            await scene.submit(a_job(nodes, name, policy))
        tried = {f"{name}-worker-{index}": ["0", "1"][: index + 1] for name in rows for index in (0, 1)}
        await expect_all(scene, tried, lambda: attempts_of_all(scene))
        await expect_rows(
            scene,
            dict.fromkeys(rows, ("Running", "2/2", 0)),
            lambda name: (
                scene.phase(name),
                scene.status(name).get("ready", ""),
                sum((scene.status(name).get("RestartCount") or {}).values()),
            ),
        )
        assert not any({"Restarting", "Failed"} & set(scene.phases(name)) for name in rows)
        said = {name: replaced("worker-1", WORDS[reason]) for name, (_, reason) in rows.items()}
        await expect_rows(scene, said, lambda name: scene.events(name).get("Disrupted", NO_MESSAGE))


async def test_a_member_evicted_again_and_again_comes_back_later_each_time(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.scripts["t"] = [Evicted(), Evicted(), Evicted(), Runs()]
        one = job("t", {"worker": nodes.place(group(FOREVER, restartPolicy="Never"))})
        await scene.submit(one)
        await scene.until(lambda: scene.status("t").get("ready") == "1/1" and len(scene.made("t-worker-0")) == 4, "up")
        came = [change.at for change in scene.history if change.kind == "Pod" and change.type is WatchEventType.ADDED]
        # The waits are 0, 1 and 2 seconds; what the test hears of comes a moment later.
        assert came[2] - came[1] > 0.9
        assert came[3] - came[2] > 1.9
        assert scene.status("t")["RestartCount"] == {"worker": 0}


async def test_a_program_that_fails_is_charged_although_others_were_evicted(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.scripts["t"] = [Evicted(), Ends(3), Ends(4)]
        rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 1}
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, **rules))}))
        await scene.until_phase("t", "Failed")
        assert scene.message("t") == failed(limit_reached(exited("worker-0", 4), "worker", 1))
        assert scene.attempts("t-worker-0") == ["0", "1", "2"]


async def test_members_driven_out_by_a_taint_come_back_elsewhere(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        await scene.submit(a_job(nodes, "t"))
        await scene.until_phase("t", "Running")
        closed = nodes.of("t-worker-0")
        # An operator that sees them only when they are gone takes them for members it has not made yet.
        for index in (0, 1):
            scene.excuse(f"t-worker-{index}")
        [other] = set(nodes.names) - {closed}
        await nodes.taint(closed, "example.com/maintenance", "NoExecute")
        await scene.until(lambda: nodes.of("t-worker-0") == other, "it elsewhere")
        await scene.until(lambda: scene.status("t")["ready"] == "2/2", "all running")
        assert scene.status("t")["RestartCount"] == {"worker": 0}
        assert scene.phases("t")[-1] == "Running"


async def test_pods_that_vanish_from_a_pending_job_come_back(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit({**a_job(nodes, "t"), "spec": {**a_job(nodes, "t")["spec"], "schedulerName": "nobody"}})
        await scene.until(lambda: len(scene.pods) == 2, "two pods that nobody places")
        await scene.delete_pod("t-worker-1")
        await scene.until(lambda: len(scene.made("t-worker-1")) == 2, "it back")
        assert scene.phase("t") == "Pending"
