"""Containers that cannot be created: for a while their pods are made anew, then the job says why it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pliant.kube.codec import WatchEventType
from pliant.model.messages import Message, MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Change, Object
from tests.scenarios.messages import failed
from tests.scenarios.nodes import STUCK_REASONS, Behaviour, PaperNodes, Runs, Stuck, attempt, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_all, expect_rows, place_of

BY_NAME = {reason.lower(): reason for reason in STUCK_REASONS}


def a_job(nodes: PaperNodes, name: str, **fields: Any) -> Manifest:
    """One member that can be created and one that perhaps cannot, each to be made anew without the other."""
    rules = {"restartPolicy": "OnFailure", "restartScope": "All", **fields}
    return job(name, {"worker": nodes.place(group(FOREVER, 2, **rules))})


def stuck_while(is_so: Callable[[str, int], bool]) -> Callable[[Object], Behaviour]:
    """The second member is stuck, for the reason that its job is named after."""

    def behaviour(pod: Object) -> Behaviour:
        name, place = place_of(pod)
        is_stuck = place == "worker-1" and is_so(name, attempt(pod))
        return Stuck(BY_NAME.get(name, "ImagePullBackOff"), "no luck") if is_stuck else Runs()

    return behaviour


def is_new_pod(change: Change) -> bool:
    return change.kind == "Pod" and change.type is WatchEventType.ADDED


def not_created(nodes: PaperNodes, pod: str, reason: str) -> Message:
    where = {"pod": pod, "node": nodes.names[0], "container": "aitj-main"}
    return message(MessageReason.CONTAINER_NOT_CREATED, problem=f"{reason}: no luck", **where)


async def test_each_reason_is_borne_then_mended_by_a_new_pod_then_fails_the_job(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = stuck_while(lambda name, _: name in BY_NAME)
        for name in BY_NAME:
            await scene.submit(a_job(nodes, name))
        causes = {name: not_created(nodes, f"{name}-worker-1", reason) for name, reason in BY_NAME.items()}
        await expect_rows(scene, dict.fromkeys(BY_NAME, True), lambda name: "Restarting" in scene.events(name))
        restarts = {
            name: message(MessageReason.RESTARTING, [cause], group="worker", used=1, scope="Pod")
            for name, cause in causes.items()
        }
        assert {name: scene.events(name)["Restarting"] for name in BY_NAME} == restarts
        await expect_rows(
            scene,
            {name: ("Failed", {"worker": 1}, failed(cause)) for name, cause in causes.items()},
            lambda name: (scene.phase(name), scene.status(name)["RestartCount"], scene.message(name)),
        )
        tried = {f"{name}-worker-{index}": ["0", "1"][: index + 1] for name in BY_NAME for index in (0, 1)}
        await expect_all(scene, tried, lambda: attempts_of_all(scene))


async def test_a_new_pod_that_can_be_created_mends_the_job(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = stuck_while(lambda _, tries: tries == 0)
        await scene.submit(a_job(nodes, "t"))
        await scene.until_phase("t", "Running")
        tries = [change.at for change in scene.history if change.name == "t-worker-1" and is_new_pod(change)]
        # It was borne first, for three seconds that may look like two.
        assert tries[1] - tries[0] > 1.9
        assert scene.attempts("t-worker-0") == ["0"]
        assert scene.attempts("t-worker-1") == ["0", "1"]
        assert scene.status("t")["RestartCount"] == {"worker": 1}


async def test_what_is_stuck_and_comes_loose_in_time_is_left_alone(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = stuck_while(lambda _, tries: tries == 0)
        await scene.submit(a_job(nodes, "loose"))
        await scene.submit(a_job(nodes, "stuck"))
        await scene.until(lambda: "no luck" in str(scene.pods.get("loose-worker-1")), "it stuck")
        nodes.order("loose-worker-1", Runs())
        await scene.until_phase("loose", "Running")
        await scene.until_phase("stuck", "Running")
        assert scene.attempts("stuck-worker-1") == ["0", "1"]
        assert scene.attempts("loose-worker-1") == ["0"]
        assert "Restarting" not in scene.phases("loose")


async def test_a_job_without_restarts_left_fails_when_patience_ends(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = stuck_while(lambda _, tries: True)
        await scene.submit(a_job(nodes, "t", restartLimit=0))
        await scene.until_phase("t", "Failed")
        assert scene.message("t") == failed(not_created(nodes, "t-worker-1", "ImagePullBackOff"))
        assert scene.attempts("t-worker-1") == ["0"]
        assert "Restarting" not in scene.phases("t")
