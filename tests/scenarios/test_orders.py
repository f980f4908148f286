"""Ends that schedulers and people order by an annotation, whatever the job is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pliant.model.messages import Message, MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_rows, place_of

SPELLINGS = {
    "Failed": "Failed",
    "failed": "Failed",
    "pliant/failed": "Failed",
    "NodeFail": "NodeFail",
    "nodefailed": "NodeFail",
    "pliant/NodeFail": "NodeFail",
    "Preempted": "Preempted",
    "preempted": "Preempted",
    "pliant/preempted": "Preempted",
}
"""Annotations, and the end that each orders."""
MOMENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "running": ("Running", {}, {}),
    "creating": ("Creating", {}, {}),
    "pending": ("Pending", {}, {"schedulerName": "nobody"}),
    "restarting": ("Restarting", {"restartPolicy": "Always", "restartScope": "Pod"}, {}),
    "suspended": ("Suspended", {}, {"suspend": True}),
}
"""What a job is doing: its phase, and what of its group and its spec leads there."""


def behaviour(pod: Object) -> Behaviour:
    moment, _, _ = place_of(pod)[0].partition("-")
    match moment:
        case "restarting":
            return Ends(1)
        case "creating":
            return Runs(after=600)
        case _:
            return Runs()


def a_job(nodes: PaperNodes, name: str, annotations: Mapping[str, str] | None = None, **fields: Any) -> Manifest:
    _, rules, more = MOMENTS[name.partition("-")[0]]
    worker = nodes.place(group(FOREVER, 2, **rules))
    made = job(name, {"worker": worker}, **{"cleanPodPolicy": "None", **more, **fields})
    made["metadata"]["annotations"] = dict(annotations or {})
    return made


def ordered(words: str) -> Message:
    return message(MessageReason.END_REQUESTED, message=words)


async def annotate(scene: Scene, name: str, key: str, value: str) -> None:
    await scene.edit(name, {"metadata": {"annotations": {key: value}}})


async def test_an_order_ends_a_job_whatever_it_does_and_leaves_nothing(scene: Scene) -> None:
    rows = {f"{moment}-{number}": moment for moment in MOMENTS for number in range(len(SPELLINGS))}
    keys = {name: list(SPELLINGS)[int(name.rpartition("-")[2])] for name in rows}
    async with paper_nodes(scene, 2) as nodes:
        nodes.behaviour = behaviour

        async def story(name: str) -> None:
            await scene.submit(a_job(nodes, name))
            await scene.until_phase(name, MOMENTS[rows[name]][0])
            await annotate(scene, name, keys[name], f"{name} is to go")

        await asyncio.gather(*map(story, rows))
        await expect_rows(
            scene,
            {name: (SPELLINGS[keys[name]], ordered(f"{name} is to go")) for name in rows},
            lambda name: (scene.phase(name), scene.message(name)),
        )
        assert {tuple(scene.phases(name)[-2:]) for name in rows} == {("Terminating", end) for end in SPELLINGS.values()}
        await scene.until(lambda: not scene.pods and not scene.services, "nothing left")
        assert not any(name.startswith("suspended") for name in attempts_of_all(scene))


async def test_a_job_ordered_to_end_before_it_began_never_begins(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "running-a", {"Preempted": ""}))
        await scene.until_phase("running-a", "Preempted")
        assert scene.message("running-a") == ordered("requested by annotation Preempted")
        assert attempts_of_all(scene) == {}


async def test_an_order_cannot_change_an_end(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "running-a"))
        await scene.until_phase("running-a", "Running")
        await annotate(scene, "running-a", "Failed", "the first word")
        await scene.until_phase("running-a", "Failed")
        await annotate(scene, "running-a", "Preempted", "the second word")
        await annotate(scene, "running-a", "Failed", "another word")
        await scene.submit(a_job(nodes, "running-b", {"Preempted": "later"}))
        await scene.until_phase("running-b", "Preempted")
        assert scene.phase("running-a") == "Failed"
        assert scene.message("running-a") == ordered("the first word")


async def test_other_annotations_order_nothing(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        harmless = {"note": "failed", "failed.example.com/note": "x", "succeed": "x", "timeout": "x", "nodes": "x"}
        await scene.submit(a_job(nodes, "running-a", harmless))
        await scene.until_phase("running-a", "Running")


async def test_an_order_takes_pods_from_a_dead_node_along(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "running-a"))
        await scene.until_phase("running-a", "Running")
        nodes.kubelet.abandon(nodes.names[0])
        await annotate(scene, "running-a", "NodeFail", "found dead")
        await scene.until_phase("running-a", "Terminating")
        await nodes.not_ready(nodes.names[0])
        await scene.until_phase("running-a", "NodeFail")
