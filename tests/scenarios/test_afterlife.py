"""What is left of a job that has ended, and for how long."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pliant.kube.codec import WatchEventType
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Change, Object
from tests.scenarios.nodes import Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import expect_rows, place_of, side_by_side

ENDS: dict[str, tuple[str, bool]] = {
    "done": ("Succeed", True),
    "broken": ("Failed", True),
    "lost": ("NodeFail", False),
    "late": ("Timeout", False),
    "preempted": ("Preempted", False),
    "abandoned": ("Failed", False),
    "condemned": ("NodeFail", False),
}
"""The phase in which each kind of end leaves a job, and whether its author may have things kept."""
ORDERS = {"preempted": "Preempted", "abandoned": "Failed", "condemned": "NodeFail"}


def a_job(nodes: PaperNodes, name: str, **fields: Any) -> Manifest:
    return job(name, {"worker": nodes.place(group(FOREVER, 2))}, **fields)


def held(scene: Scene, name: str) -> tuple[int, int]:
    """How many pods and services a job has."""
    pods, services = (sum(each.startswith(f"{name}-worker-") for each in kind) for kind in (scene.pods, scene.services))
    return pods, services


async def test_what_is_kept_after_each_end(scene: Scene) -> None:
    policies = {"all": {"cleanPodPolicy": "All"}, "none": {"cleanPodPolicy": "None"}, "unset": {}}
    rows = {f"{end}-{policy}": (end, policy) for end, policy in product(ENDS, policies)}
    async with paper_nodes(scene, 3) as nodes:
        good, other, lost = nodes.names

        def seat(pod: Object) -> str:
            name, place = place_of(pod)
            return good if place == "worker-0" else lost if name.startswith("lost") else other

        seated = nodes.seat(seat)
        for name, (end, policy) in rows.items():
            nodes.scripts[name] = [Ends({"done": 0, "broken": 1}[end]) if end in ("done", "broken") else Runs()]
            limit = {"timeLimit": 1} if end == "late" else {}
            await scene.submit(a_job(nodes, name, **policies[policy], **limit, **seated))
        for name, (end, _) in rows.items():
            if end in ORDERS:
                await scene.until_phase(name, "Running")
                await scene.edit(name, {"metadata": {"annotations": {ORDERS[end]: "enough"}}})
        await expect_rows(scene, {name: "Running" for name in rows if name.startswith("lost")}, scene.phase)
        await nodes.not_ready(lost)
        kept = {name: policy == "none" and ENDS[end][1] for name, (end, policy) in rows.items()}
        await expect_rows(
            scene,
            {name: (ENDS[end][0], (2, 2) if kept[name] else (0, 0)) for name, (end, _) in rows.items()},
            lambda name: (scene.phase(name), held(scene, name)),
        )
        was_cleared = {name: "Terminating" in scene.phases(name) for name in rows}
        assert was_cleared == {name: not is_kept for name, is_kept in kept.items()}


async def until_deleted(scene: Scene, name: str) -> None:
    def is_gone() -> bool:
        last = next((change for change in reversed(scene.history) if is_job(change, name)), None)
        return last is not None and last.type is WatchEventType.DELETED and held(scene, name) == (0, 0)

    await scene.until(is_gone, f"{name} gone")


def is_job(change: Change, name: str) -> bool:
    return change.name == name and change.kind == "AITrainingJob"


async def a_job_goes_with_all_it_kept(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(0)]
    await scene.submit(a_job(nodes, name, ttlSecondsAfterFinished=3, cleanPodPolicy="None"))
    await scene.until_phase(name, "Succeed")
    await scene.until(lambda: held(scene, name) == (2, 2), "all kept")
    await until_deleted(scene, name)


async def a_job_may_go_at_once(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(7)]
    await scene.submit(a_job(nodes, name, ttlSecondsAfterFinished=0))
    await until_deleted(scene, name)
    assert scene.phases(name)[-1] == "Failed"


async def every_end_is_followed_by_the_same(scene: Scene, nodes: PaperNodes, name: str) -> None:
    for end in ("Failed", "NodeFail", "Preempted"):
        which = f"{name}-{end.lower()}"
        await scene.submit(a_job(nodes, which, ttlSecondsAfterFinished=1))
        await scene.until_phase(which, "Running")
        await scene.edit(which, {"metadata": {"annotations": {end: "enough"}}})
        await until_deleted(scene, which)
        assert scene.phases(which)[-1] == end


async def a_job_that_has_not_ended_is_kept(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, ttlSecondsAfterFinished=0))
    await scene.submit(a_job(nodes, f"{name}-suspended", ttlSecondsAfterFinished=0, suspend=True))
    await scene.submit(a_job(nodes, f"{name}-measure", timeLimit=1))
    await scene.until_phase(f"{name}-measure", "Timeout")
    assert scene.phase(name) == "Running"
    assert scene.phase(f"{name}-suspended") == "Suspended"


async def the_time_may_be_set_when_a_job_has_ended(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(0)]
    await scene.submit(a_job(nodes, name))
    await scene.until_phase(name, "Succeed")
    await scene.edit(name, {"spec": {"ttlSecondsAfterFinished": 1}})
    await until_deleted(scene, name)


async def a_job_may_be_saved_in_time(scene: Scene, nodes: PaperNodes, name: str) -> None:
    for each in (name, f"{name}-measure"):
        nodes.scripts[each] = [Ends(0)]
        await scene.submit(a_job(nodes, each, ttlSecondsAfterFinished=3))
        await scene.until_phase(each, "Succeed")
        if each == name:
            await scene.edit(name, {"spec": {"ttlSecondsAfterFinished": None}})
    await until_deleted(scene, f"{name}-measure")
    assert scene.phase(name) == "Succeed"


async def the_time_counts_from_the_end(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(0, after=3)]
    await scene.submit(a_job(nodes, name, ttlSecondsAfterFinished=3))
    await until_deleted(scene, name)
    story = [change for change in scene.history if is_job(change, name)]
    ended = next(change.at for change in story if change.phase == "Succeed")
    assert story[-1].at - ended > 1.9


# The limits pass in real time; tests/engine/test_clock_jumps.py and tests/faults have them in virtual time.
@pytest.mark.deep
async def test_a_job_is_kept_so_long_and_no_longer(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await side_by_side(
            scene,
            nodes,
            a_job_goes_with_all_it_kept,
            a_job_may_go_at_once,
            every_end_is_followed_by_the_same,
            a_job_that_has_not_ended_is_kept,
            the_time_may_be_set_when_a_job_has_ended,
            a_job_may_be_saved_in_time,
            the_time_counts_from_the_end,
        )
