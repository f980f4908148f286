"""Jobs that are sent home and come back, from whatever they were doing, changed meanwhile or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pliant.errors import Invalid
from pliant.model.messages import MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.messages import ALL_RUNNING
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_rows, place_of

SUSPEND = {"spec": {"suspend": True}}
RESUME = {"spec": {"suspend": False}}
ALL_GONE, ONE_LEFT = message(MessageReason.SUSPENDED), message(MessageReason.SUSPENDED, pods=1)
MOMENTS: dict[str, tuple[str, list[Behaviour], dict[str, Any], dict[str, Any]]] = {
    "running": ("Running", [Runs()], {}, {}),
    "creating": ("Creating", [Runs(after=600), Runs()], {}, {}),
    "pending": ("Pending", [Runs()], {}, {"schedulerName": "nobody"}),
    "restarting": ("Restarting", [Ends(1), Ends(1), Ends(1), Runs()], {"restartPolicy": "Always"}, {}),
    "waiting": ("Restarting", [Ends(1), Runs(after=600), Runs()], {"restartPolicy": "Always"}, {}),
}
"""What a job is doing: its phase, its members at each attempt, what of its group and its spec leads there."""


def a_job(nodes: PaperNodes, name: str, **fields: Any) -> Manifest:
    return job(name, {"worker": nodes.place(group(FOREVER, 2))}, **fields)


def has_nothing(scene: Scene, name: str) -> bool:
    return not any(each.startswith(f"{name}-worker-") for each in [*scene.pods, *scene.services])


async def until_home(scene: Scene, name: str) -> None:
    """Wait until a job is suspended and everybody has left."""
    await scene.until_phase(name, "Suspended")
    await scene.until(lambda: has_nothing(scene, name), f"nothing of {name} left")


async def until_back(scene: Scene, name: str, size: int) -> None:
    """Wait until a job that was suspended is at work with all its members."""
    ready = f"{size}/{size}"
    await scene.until(
        lambda: (scene.phase(name), scene.status(name).get("ready")) == ("Running", ready), f"{name} running"
    )


@pytest.mark.on_real
async def test_a_job_can_be_sent_home_and_called_back_whatever_it_does(scene: Scene) -> None:
    restarts: dict[str, Any] = {}

    async with paper_nodes(scene) as nodes:

        async def story(name: str) -> None:
            phase, nodes.scripts[name], rules, fields = MOMENTS[name]
            worker = nodes.place(group(FOREVER, 2, **rules))
            await scene.submit(job(name, {"worker": worker}, **fields))
            await scene.until_phase(name, phase)
            await scene.edit(name, SUSPEND)
            await until_home(scene, name)
            await scene.until(lambda: scene.message(name) == ALL_GONE, "all gone, and said so")
            await scene.until(lambda: scene.status(name)["ready"] == "0/2", "nobody counted")
            restarts[name] = scene.status(name)["RestartCount"]
            nodes.scripts[name] = [Runs()]
            await scene.edit(name, RESUME)
            if name == "pending":
                # It comes back to where it was: nobody places its pods.
                await scene.until(lambda: len(scene.made(f"{name}-worker-1")) == 2, "its pods back")
                await scene.until(lambda: scene.phase(name) == "Pending", "it pending again")
                return
            await until_back(scene, name, 2)

        await asyncio.gather(*map(story, MOMENTS))
        assert {name: scene.status(name)["RestartCount"] for name in MOMENTS} == restarts
        for name in MOMENTS:
            told = scene.events(name)
            assert {"Suspended", "Resumed"} <= set(told), name
            assert "Pending" in scene.phases(name)[scene.phases(name).index("Suspended") :]
        told_too_early = [
            str(change) for change in scene.history if change.phase == "Pending" and says_all_ready(change.object)
        ]
        assert told_too_early == []
        tried = attempts_of_all(scene)
        assert tried["running-worker-0"] == tried["running-worker-1"] == ["0", "1"]
        assert tried["pending-worker-0"] == ["0", "1"]


def says_all_ready(each: Object) -> bool:
    return bool(each["kind"] == "AITrainingJob" and (each.get("status") or {}).get("ready") == "2/2")


async def test_a_job_suspended_from_the_start_has_no_pods_until_it_is_called(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t", suspend=True))
        await scene.until_phase("t", "Suspended")
        await scene.submit(a_job(nodes, "other"))
        await scene.until_phase("other", "Running")
        assert not any(name.startswith("t-") for name in [*attempts_of_all(scene), *scene.services])
        await scene.edit("t", RESUME)
        await scene.until_phase("t", "Running")
        assert scene.attempts("t-worker-0") == ["0"]


async def test_members_that_had_ended_stay_at_home(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t"))
        await scene.until_phase("t", "Running")
        nodes.order("t-worker-0", Ends(0))
        await scene.until(lambda: scene.status("t")["replicaStatuses"]["worker"].get("succeeded") == 1, "one done")
        await scene.edit("t", SUSPEND)
        await until_home(scene, "t")
        await scene.edit("t", RESUME)
        await scene.until(lambda: scene.phases("t")[-1] == "Running", "the other at work")
        assert attempts_of_all(scene) == {"t-worker-0": ["0"], "t-worker-1": ["0", "1"]}
        nodes.order("t-worker-1", Ends(0))
        await scene.until_phase("t", "Succeed")


async def test_a_job_that_is_called_back_at_once_never_meets_its_past(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        slow, quick = nodes.names
        seated = nodes.seat(lambda pod: slow if place_of(pod)[1] == "worker-1" else quick)
        await scene.submit(a_job(nodes, "t", **seated))
        await scene.until_phase("t", "Running")
        # A kubelet that takes its time to let a pod go.
        nodes.kubelet.abandon(slow)
        await scene.edit("t", SUSPEND)
        await scene.until(lambda: scene.phase("t") == "Suspended" and list(scene.pods) == ["t-worker-1"], "one left")
        await scene.until(lambda: scene.message("t") == ONE_LEFT, "it told")
        await scene.edit("t", RESUME)
        await scene.until(lambda: "t-worker-0" in scene.services, "the job at work again")
        assert list(scene.pods) == ["t-worker-1"]
        nodes.kubelet.serve(slow)
        await until_back(scene, "t", 2)
        assert attempts_of_all(scene) == {"t-worker-0": ["0", "1"], "t-worker-1": ["0", "1"]}


async def test_a_suspended_job_may_get_other_templates_sizes_and_groups(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t"))
        await scene.until_phase("t", "Running")
        await scene.edit("t", SUSPEND)
        await until_home(scene, "t")
        changed = nodes.place(group("exec sleep 601", 3))
        added = nodes.place(group(FOREVER, completePolicy="None"))
        await scene.edit("t", {"spec": {"replicaSpecs": {"worker": changed, "ps": added}}})
        await scene.edit("t", RESUME)
        await until_back(scene, "t", 4)
        commands = {name: pod["spec"]["containers"][0]["command"][-1] for name, pod in scene.pods.items()}
        assert commands == {f"t-worker-{index}": "exec sleep 601" for index in range(3)} | {"t-ps-0": FOREVER}
        assert "Invalid" not in [entry["type"] for entry in scene.status("t")["conditions"]]


async def test_a_job_may_be_suspended_and_changed_in_one_go(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t"))
        await scene.until_phase("t", "Running")
        other = nodes.place(group("exec sleep 601", 2))
        await scene.edit("t", {"spec": {"suspend": True, "replicaSpecs": {"worker": other}}})
        await until_home(scene, "t")
        await scene.edit("t", RESUME)
        await until_back(scene, "t", 2)
        assert scene.pods["t-worker-0"]["spec"]["containers"][0]["command"][-1] == "exec sleep 601"


EDITS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "template": (
        {"worker": {"template": {"spec": {"terminationGracePeriodSeconds": 2}}}},
        {"worker": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}},
        "spec.replicaSpecs.worker.template: cannot change while the job is active",
    ),
    "added": (
        {"extra": group(FOREVER)},
        {"extra": None},
        "spec.replicaSpecs.extra: cannot be added while the job is active",
    ),
    "renamed": (
        {"worker": None, "trainer": group(FOREVER, 2)},
        {},
        "spec.replicaSpecs.worker: cannot be removed while the job is active",
    ),
}


async def test_templates_and_groups_of_a_job_under_way_stay_as_they_are(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:

        async def story(name: str) -> None:
            edit, undo, complaint = EDITS[name]
            first = await scene.submit(a_job(nodes, name))
            await scene.until_phase(name, "Running")
            try:
                await scene.edit(name, {"spec": {"replicaSpecs": edit}})
            except Invalid:
                return  # the server knows the rule itself
            await scene.until(lambda: scene.rejection(name).startswith(complaint), "the complaint")
            assert scene.phase(name) == "Running"
            told = await scene.until(lambda: scene.complaint(name), "an event")
            assert told.startswith(complaint)
            undone = undo or {"trainer": None, "worker": first["spec"]["replicaSpecs"]["worker"]}
            await scene.edit(name, {"spec": {"replicaSpecs": undone}})
            await scene.until(lambda: not scene.rejection(name), "the complaint gone")
            assert scene.message(name) == ALL_RUNNING

        await asyncio.gather(*map(story, EDITS))
        await expect_rows(scene, dict.fromkeys(EDITS, "2/2"), lambda name: scene.status(name)["ready"])
        assert attempts_of_all(scene) == {f"{name}-worker-{index}": ["0"] for name in EDITS for index in (0, 1)}


async def test_a_job_that_was_broken_by_an_edit_still_trains_to_its_end(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t"))
        await scene.until_phase("t", "Running")
        try:
            await scene.edit("t", {"spec": {"replicaSpecs": EDITS["template"][0]}})
        except Invalid:
            return  # the server knows the rule itself
        await scene.until(lambda: scene.complaint("t"), "the complaint")
        for index in (0, 1):
            nodes.order(f"t-worker-{index}", Ends(0))
        await scene.until_phase("t", "Succeed")
