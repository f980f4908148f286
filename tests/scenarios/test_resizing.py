"""Sizes asked for in two ways, at any moment: the later word counts, and whoever has to go is no failure."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import product
from typing import Any

from pliant.kube.resources import PODS
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.messages import ALL_RUNNING, resized
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_rows, place_of

START, SIZES = 3, {"out": 5, "in": 1}
MOMENTS: dict[str, tuple[str, list[Behaviour], dict[str, Any]]] = {
    "running": ("Running", [Runs()], {}),
    "pending": ("Pending", [Runs()], {"schedulerName": "nobody"}),
    "creating": ("Creating", [Runs(after=600)], {}),
    "restarting": ("Restarting", [Ends(1), Runs(after=1.5)], {}),
    "suspended": ("Suspended", [Runs()], {"suspend": True}),
}
"""What a job is doing: its phase, its members at each attempt, and what of its spec leads there."""
RULES: dict[str, Any] = {"restartPolicy": "OnFailure", "restartLimit": 1}
WAYS = {"scale": "scale", "edit": "spec"}
"""How a size is asked for, and who is told to have asked."""


def a_job(nodes: PaperNodes, name: str, size: int, rules: dict[str, Any] = RULES, **fields: Any) -> Manifest:
    return job(name, {"worker": nodes.place(group(FOREVER, size, **rules))}, **fields)


async def resize(scene: Scene, name: str, way: str, size: int) -> None:
    """By `kubectl scale`, or by editing the group."""
    if way == "scale":
        await scene.edit(name, {"spec": {"replicas": size}}, subresource="scale")
    else:
        await scene.edit(name, {"spec": {"replicaSpecs": {"worker": {"replicas": size}}}})


def members(scene: Scene, name: str) -> tuple[set[str], set[str]]:
    """The pods and the services of a job."""
    pods, services = (
        {each for each in kind if each.startswith(f"{name}-worker-")} for kind in (scene.pods, scene.services)
    )
    return pods, services


def wanted(name: str, size: int) -> tuple[set[str], set[str]]:
    names = {f"{name}-worker-{index}" for index in range(size)}
    return names, names


def has_members(scene: Scene, name: str, names: tuple[set[str], set[str]]) -> bool:
    return members(scene, name) == names


async def test_a_job_takes_on_a_size_whatever_it_does(scene: Scene) -> None:
    rows = {"-".join(each): each for each in product(MOMENTS, WAYS, SIZES)}
    async with paper_nodes(scene, 2) as nodes:

        async def story(name: str) -> None:
            moment, way, direction = rows[name]
            phase, nodes.scripts[name], fields = MOMENTS[moment]
            await scene.submit(a_job(nodes, name, START, **fields))
            await scene.until_phase(name, phase)
            await resize(scene, name, way, SIZES[direction])
            told = resized("worker", START, SIZES[direction], WAYS[way])
            await scene.until(lambda: scene.events(name).get("Resized") == told, f"{name}: {told}")
            if moment == "suspended":
                assert members(scene, name) == (set(), set())
                await scene.edit(name, {"spec": {"suspend": False}})

        await asyncio.gather(*map(story, rows))
        sizes = {name: SIZES[direction] for name, (_, _, direction) in rows.items()}
        await expect_rows(
            scene, {name: wanted(name, size) for name, size in sizes.items()}, lambda name: members(scene, name)
        )
        phases = {"pending": ("Pending", "0"), "creating": ("Creating", "0")}
        ends = {name: phases.get(moment, ("Running", str(sizes[name]))) for name, (moment, _, _) in rows.items()}
        await expect_rows(
            scene,
            {name: (phase, f"{ready}/{sizes[name]}") for name, (phase, ready) in ends.items()},
            lambda name: (scene.phase(name), scene.status(name)["ready"]),
        )
        # Only what the members did themselves is charged.
        charged = {name: {"worker": 1 if name.startswith("restarting") else 0} for name in rows}
        assert {name: scene.status(name)["RestartCount"] for name in rows} == charged
        tried = attempts_of_all(scene)
        untouched = [f"{name}-worker-0" for name in rows if not name.startswith("restarting")]
        assert {name: tried[name] for name in untouched} == {name: ["0"] for name in untouched}


async def test_the_later_word_counts_in_either_order(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t", 2))
        await scene.until_phase("t", "Running")
        for index in range(1, 6):
            scene.excuse(f"t-worker-{index}")
        for way, size in [("scale", 4), ("edit", 3), ("scale", 5), ("edit", 1), ("edit", 6), ("scale", 2)]:
            await resize(scene, "t", way, size)
            names = wanted("t", size)
            await scene.until(partial(has_members, scene, "t", names), f"{way} to {size}")
        await scene.until(lambda: scene.status("t").get("ready") == "2/2", "two running")
        assert scene.attempts("t-worker-0") == ["0"]
        assert scene.status("t")["RestartCount"] == {"worker": 0}
        assert scene.phases("t")[-1] == "Running"


async def test_one_edit_that_says_both_means_the_scale(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t", 1))
        await scene.until_phase("t", "Running")
        both = {"elastic": {"replicas": 4}, "replicaSpecs": {"worker": {"replicas": 2}}}
        await scene.edit("t", {"spec": both})
        await scene.until(lambda: members(scene, "t") == wanted("t", 4), "four members")


async def test_narrower_bounds_move_a_group(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t", 2, {**RULES, "minReplicas": 1, "maxReplicas": 6}))
        await resize(scene, "t", "scale", 5)
        await scene.until(lambda: members(scene, "t") == wanted("t", 5), "five members")
        await scene.edit("t", {"spec": {"replicaSpecs": {"worker": {"maxReplicas": 3}}}})
        await scene.until(lambda: members(scene, "t") == wanted("t", 3), "three members")
        await scene.until(lambda: scene.status("t").get("ready") == "3/3", "three running")


async def test_a_group_may_shrink_to_nobody_and_grow_again(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t", 2))
        await scene.until_phase("t", "Running")
        for index in (0, 1):
            scene.excuse(f"t-worker-{index}")
        await resize(scene, "t", "scale", 0)
        await scene.until(lambda: members(scene, "t") == (set(), set()), "nobody")
        await resize(scene, "t", "scale", 2)
        await scene.until(lambda: scene.status("t").get("ready") == "2/2" and len(scene.pods) == 2, "both back")
        assert scene.phases("t")[-1] == "Running"


async def test_a_member_on_its_way_out_cannot_fail_the_job(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        slow, quick = nodes.names
        seated = nodes.seat(lambda pod: slow if place_of(pod)[1] == "worker-2" else quick)
        await scene.submit(a_job(nodes, "t", 3, {"restartPolicy": "Never"}, **seated))
        await scene.until_phase("t", "Running")
        nodes.kubelet.abandon(slow)
        await resize(scene, "t", "scale", 2)
        await scene.until(lambda: "deletionTimestamp" in scene.pods["t-worker-2"]["metadata"], "one leaving")
        ended = {"name": "aitj-main", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
        state = {"terminated": {"exitCode": 143, "reason": "Error"}}
        status = {"phase": "Failed", "containerStatuses": [{**ended, "state": state}]}
        await scene.client.patch(PODS, scene.namespace, "t-worker-2", {"status": status}, subresource="status")
        await scene.until(lambda: scene.pods["t-worker-2"]["status"]["phase"] == "Failed", "it failing")
        nodes.kubelet.serve(slow)
        await scene.until(lambda: members(scene, "t") == wanted("t", 2), "it gone")
        await scene.until(lambda: scene.status("t")["ready"] == "2/2", "the others running")
        assert scene.phases("t")[-1] == "Running"


async def test_a_failure_that_is_scaled_away_is_forgotten(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await scene.submit(a_job(nodes, "t", 3, {"failPolicy": "All"}))
        await scene.until_phase("t", "Running")
        nodes.order("t-worker-2", Ends(9))
        await scene.until(lambda: scene.status("t")["replicaStatuses"]["worker"].get("failed") == 1, "one failed")
        await resize(scene, "t", "edit", 2)
        await scene.until(lambda: members(scene, "t") == wanted("t", 2), "it gone")
        await scene.until(lambda: scene.message("t") == ALL_RUNNING, "it forgotten")
        scene.excuse("t-worker-2")
        await resize(scene, "t", "edit", 3)
        await scene.until(lambda: scene.status("t").get("ready") == "3/3", "another in its place")


async def test_a_size_asked_for_while_a_job_ends_comes_too_late(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        slow, quick = nodes.names
        seated = nodes.seat(lambda pod: slow if place_of(pod)[1] == "worker-1" else quick)
        names = ("out", "in")
        for name in names:
            await scene.submit(a_job(nodes, name, 2, {"completePolicy": "Rank0"}, **seated))
            await scene.until_phase(name, "Running")
        nodes.kubelet.abandon(slow)
        for name, size in zip(names, (4, 1), strict=True):
            nodes.order(f"{name}-worker-0", Ends(0))
            await scene.until_phase(name, "Terminating")
            await resize(scene, name, "scale", size)
        nodes.kubelet.serve(slow)
        for name in names:
            await scene.until_phase(name, "Succeed")
        assert {place: len(tried) for place, tried in attempts_of_all(scene).items()} == {
            f"{name}-worker-{index}": 1 for name in names for index in (0, 1)
        }
