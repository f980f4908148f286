"""Operators killed with SIGKILL at moments drawn by lot, while jobs go through all sorts of troubles."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.depth import sample
from tests.scenarios.cluster import OperatorProcess, Site, an_ordinary_user, cluster, operator, real_cluster
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, Stuck, attempt, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import place_of

KILLS = {"embedded": 3, "real": 10}
"""For each seed; the embedded cluster has been disturbed at every single write elsewhere."""
CHANGES = 200
"""Things that happen to the objects of a scene before all its jobs are over, roughly."""
LONG = 60.0
OPTIONS = ("--node-grace-period=2s", "--creating-duration-period=2s")
AGAIN: dict[str, Any] = {"restartPolicy": "OnFailure", "restartLimit": 2}
Acts = Callable[[Scene, PaperNodes], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Life:
    """A job, what becomes of its pods, what people and nodes do to it, and how it must end."""

    groups: dict[str, Manifest]
    spec: dict[str, Any]
    fate: Callable[[str, int], Behaviour]
    """The place and the attempt of a pod to what becomes of it."""
    acts: Acts | None = None
    end: str
    restarts: dict[str, int]


async def _lose_a_node(scene: Scene, nodes: PaperNodes) -> None:
    await scene.until_phase("lost", "Running")
    await nodes.not_ready(nodes.names[1])
    await scene.until(lambda: is_ready(scene, "lost", "2/2", "1"), "the lost member back", within=LONG)
    await scene.edit("lost", {"metadata": {"annotations": {"preempted": "make room"}}})


async def _pause(scene: Scene, nodes: PaperNodes) -> None:
    await scene.until_phase("paused", "Running")
    await scene.edit("paused", {"spec": {"suspend": True}})
    await scene.until(lambda: scene.phase("paused") == "Suspended" and not of(scene, "paused"), "all gone", within=LONG)
    await scene.edit("paused", {"spec": {"suspend": False}})


async def _resize(scene: Scene, nodes: PaperNodes) -> None:
    await scene.until_phase("resized", "Running")
    await scene.edit("resized", {"spec": {"replicas": 4}}, subresource="scale")
    await scene.until(lambda: len(of(scene, "resized")) == 4, "four members", within=LONG)
    await scene.edit("resized", {"spec": {"replicaSpecs": {"worker": {"replicas": 1}}}})
    await scene.until(lambda: len(of(scene, "resized")) == 1, "one member", within=LONG)
    await scene.edit("resized", {"metadata": {"annotations": {"Failed": "enough"}}})


LIVES = {
    "done": Life(
        groups={"worker": group(FOREVER, 2)},
        spec={},
        fate=lambda place, attempt: Ends(0, after=0.5),
        end="Succeed",
        restarts={"worker": 0},
    ),
    "wide": Life(
        groups={"worker": group(FOREVER, 2, restartScope="All", **AGAIN), "ps": group(FOREVER, completePolicy="None")},
        spec={},
        fate=lambda place, attempt: Runs() if place == "ps-0" else Ends(0 if attempt else 3, after=0.5),
        end="Succeed",
        restarts={"worker": 1, "ps": 1},
    ),
    "spent": Life(
        groups={"worker": group(FOREVER, 1, restartScope="Pod", **AGAIN)},
        spec={},
        fate=lambda place, attempt: Ends(1, after=0.3),
        end="Failed",
        restarts={"worker": 2},
    ),
    "stuck": Life(
        groups={"worker": group(FOREVER, 2)},
        spec={},
        fate=lambda place, attempt: (
            Stuck("ErrImagePull") if place == "worker-1" and attempt == 0 else Ends(0, after=0.5)
        ),
        end="Succeed",
        restarts={"worker": 1},
    ),
    "timed": Life(
        groups={"worker": group(FOREVER, 2)},
        spec={"timeLimit": 4, "cleanPodPolicy": "None"},
        fate=lambda place, attempt: Runs(),
        end="Timeout",
        restarts={"worker": 0},
    ),
    "lost": Life(
        groups={"worker": group(FOREVER, 2, restartPolicy="OnNodeFail", restartScope="Pod")},
        spec={},
        fate=lambda place, attempt: Runs(),
        acts=_lose_a_node,
        end="Preempted",
        restarts={"worker": 1},
    ),
    "paused": Life(
        groups={"worker": group(FOREVER, 2)},
        spec={},
        fate=lambda place, attempt: Ends(0, after=0.5) if attempt else Runs(),
        acts=_pause,
        end="Succeed",
        restarts={"worker": 0},
    ),
    "resized": Life(
        groups={"worker": group(FOREVER, 2)},
        spec={},
        fate=lambda place, attempt: Runs(),
        acts=_resize,
        end="Failed",
        restarts={"worker": 0},
    ),
}


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    with (
        an_ordinary_user() as user,
        cluster(user, "--no-operator") if ground == "embedded" else real_cluster(user) as started,
    ):
        yield started


def of(scene: Scene, name: str) -> list[Object]:
    """The pods of a job."""
    return [pod for pod in scene.pods.values() if place_of(pod)[0] == name]


def is_ready(scene: Scene, name: str, ready: str, tried: str) -> bool:
    """Whether a job is up, one of its members at some attempt."""
    attempts = [pod["metadata"]["labels"]["RestartCount"] for pod in of(scene, name)]
    return scene.status(name).get("ready") == ready and tried in attempts


def is_over(scene: Scene) -> bool:
    return all(scene.phase(name) == life.end for name, life in LIVES.items())


async def live(scene: Scene, nodes: PaperNodes) -> None:
    """Let every job go through its life."""
    bad, good = nodes.names[1], nodes.names[0]

    def seat(pod: Object) -> str:
        return bad if place_of(pod) == ("lost", "worker-1") and attempt(pod) == 0 else good

    def fate(pod: Object) -> Behaviour:
        name, place = place_of(pod)
        return LIVES[name].fate(place, attempt(pod))

    nodes.behaviour = fate
    seated = nodes.seat(seat)
    for name, life in LIVES.items():
        groups = {key: nodes.place(each) for key, each in life.groups.items()}
        await scene.submit(job(name, groups, **life.spec, **seated))
    await asyncio.gather(*(life.acts(scene, nodes) for life in LIVES.values() if life.acts))
    await scene.until(lambda: is_over(scene), "every job over", within=LONG)


async def kill_at(scene: Scene, worker: OperatorProcess, moments: list[int]) -> int:
    """Kill the operator when so many things have happened, and start another one; says how often that was done."""
    for done, moment in enumerate(moments):
        await scene.until(lambda: len(scene.history) >= moment or is_over(scene), "its moment", within=LONG)  # noqa: B023
        if is_over(scene):
            return done
        worker.kill()
        worker.start()
    return len(moments)


@pytest.mark.parametrize("seed", sample(range(3), 1, "moments of kills"))
async def test_wherever_an_operator_is_killed_every_job_comes_to_its_end(
    scene: Scene, site: Site, ground: str, seed: int
) -> None:
    moments = sorted(random.Random(seed).sample(range(3, CHANGES), KILLS[ground]))
    with operator(site, options=OPTIONS) as worker:
        worker.start()
        async with paper_nodes(scene, 2) as nodes:
            _, kills = await asyncio.gather(live(scene, nodes), kill_at(scene, worker, moments))
            assert kills == len(moments), f"over after {len(scene.history)} changes"
            ends = {name: (scene.phase(name), scene.status(name)["RestartCount"]) for name in LIVES}
            assert ends == {name: (life.end, life.restarts) for name, life in LIVES.items()}
            await scene.until(lambda: not scene.pods and not scene.services, "nothing left")
