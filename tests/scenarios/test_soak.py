"""People and crashes at random, for as long as asked for: afterwards every job is where its spec says.

PLIANT_SOAK names the number of seconds, PLIANT_SOAK_SEED chooses the course of events.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.resources import PODS, SERVICES
from tests.scenarios.cluster import OperatorProcess, Site, an_ordinary_user, cluster, operator
from tests.scenarios.host import processes_marked
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_attempt, per_rank
from tests.scenarios.laws import Object
from tests.scenarios.scene import Scene

DURATION = float(os.environ.get("PLIANT_SOAK", "30"))
SEED = int(os.environ.get("PLIANT_SOAK_SEED", "1"))
QUIET = 5.0
"""Longer than any wait before a restart that the budgets below allow for."""
NAMES = ["j0", "j1", "j2", "j3", "j4"]
GROUPS = ["a", "b", "c"]
LARGEST = 5
SCRIPTS = [
    "exit 0",
    "sleep 0.2",
    FOREVER,
    "sleep 0.1; exit 3",
    "trap '' TERM; sleep 0.5; exit 1",
    "kill -9 $$",
    "sleep 0.5; exit 7",
]

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with an_ordinary_user() as user, cluster(user, "--no-operator", "--nodes", "3") as started:
        yield started


@pytest.fixture
def worker(site: Site) -> Iterator[OperatorProcess]:
    with operator(site) as process:
        process.start()
        yield process


class Mischief:
    """Everything that may happen to five jobs, drawn by lot."""

    def __init__(self, scene: Scene, worker: OperatorProcess, chance: random.Random) -> None:
        self._scene = scene
        self._worker = worker
        self._chance = chance
        self._deeds: dict[Callable[[], Awaitable[None]], int] = {
            self._submit: 35,
            self._delete: 15,
            self._resize: 20,
            self._drop_group: 5,
            self._delete_pod: 10,
            self._delete_service: 5,
            self._kill_operator: 5,
        }

    async def one(self) -> None:
        """One deed; what is impossible just now is left undone."""
        [deed] = self._chance.choices(list(self._deeds), list(self._deeds.values()))
        with suppress(Conflict, NotFound, Invalid, IndexError):
            await deed()

    async def _submit(self) -> None:
        chance = self._chance
        groups = {name: self._a_group() for name in chance.sample(GROUPS, chance.randint(1, len(GROUPS)))}
        policies = {word: chance.choice(["All", "Any"]) for word in ("completePolicy", "failPolicy")}
        clean = chance.choice(["All", "None"])
        name = chance.choice(NAMES)
        await self._scene.submit(job(name, groups, restartingExitCode="3,137", cleanPodPolicy=clean, **policies))

    def _a_group(self) -> Manifest:
        chance = self._chance
        lives = [per_attempt(*chance.choices(SCRIPTS, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 3))]
        fields: dict[str, Any] = {
            "restartPolicy": chance.choice(["Always", "OnFailure", "ExitCode", "Never"]),
            "restartScope": chance.choice(["Pod", "Replica", "All"]),
            "restartLimit": chance.randint(0, 3),
            "completePolicy": chance.choice(["All", "Any", "Rank0"]),
            "failPolicy": chance.choice(["All", "Any", "Rank0", "None"]),
        }
        return group(per_rank(*lives), chance.randint(0, 3), **fields)

    async def _delete(self) -> None:
        await self._scene.delete(self._chance.choice(NAMES))

    async def _resize(self) -> None:
        size = self._chance.randint(0, LARGEST)
        patch = {self._chance.choice(GROUPS): {"replicas": size}}
        await self._scene.edit(self._chance.choice(NAMES), {"spec": {"replicaSpecs": patch}})

    async def _drop_group(self) -> None:
        patch = {self._chance.choice(GROUPS): None}
        await self._scene.edit(self._chance.choice(NAMES), {"spec": {"replicaSpecs": patch}})

    async def _delete_pod(self) -> None:
        name = self._chance.choice(list(self._scene.pods))
        await self._scene.client.delete(
            PODS, self._scene.namespace, name, grace_period_seconds=self._chance.choice([None, 0])
        )

    async def _delete_service(self) -> None:
        name = self._chance.choice(list(self._scene.services))
        await self._scene.client.delete(SERVICES, self._scene.namespace, name)

    async def _kill_operator(self) -> None:
        self._worker.kill()
        self._worker.start()


@pytest.mark.timeout(DURATION + 120)
async def test_after_any_mischief_every_job_is_where_its_spec_says(scene: Scene, worker: OperatorProcess) -> None:
    chance = random.Random(SEED)
    mischief = Mischief(scene, worker, chance)
    for place in (f"{name}-{each}-{index}" for name in NAMES for each in GROUPS for index in range(LARGEST)):
        scene.excuse(place)
    with suppress(TimeoutError):
        async with asyncio.timeout(DURATION):
            while True:
                await mischief.one()
                await asyncio.sleep(chance.choice([0, 0, 0.02, 0.1, 0.3]))
    await until_quiet(scene)
    assert [problem for name in NAMES for problem in misplaced(scene, name)] == []
    for name in NAMES:
        with suppress(NotFound):
            await scene.delete(name)
    await scene.until_gone()
    assert processes_marked(scene.namespace) == {}


async def until_quiet(scene: Scene) -> None:
    """Wait until nothing happens any more."""
    async with asyncio.timeout(60):
        seen = -1
        while seen != len(scene.history):
            seen = len(scene.history)
            await asyncio.sleep(QUIET)


def misplaced(scene: Scene, name: str) -> Iterator[str]:
    """What is not as it should be about one job that has come to rest."""
    found = scene.job(name)
    if not found:
        return
    spec, status = found["spec"], found["status"]
    mine = {each: pod for each, pod in scene.pods.items() if owner(pod) == found["metadata"]["uid"]}
    wanted = {f"{name}-{each}-{n}" for each, fields in spec["replicaSpecs"].items() for n in range(fields["replicas"])}
    if status["phase"] in ("Succeed", "Failed"):
        if mine and spec["cleanPodPolicy"] == "All":
            yield f"{name} has ended and left {sorted(mine)}"
        return
    if status["phase"] != "Running":
        yield f"{name} is still {status['phase']}: {status['message']}"
    active = sum(pod["status"]["phase"] == "Running" for pod in mine.values())
    if not set(mine) <= wanted:
        yield f"{name} has {sorted(set(mine) - wanted)} without a place"
    if status["ready"] != f"{active}/{len(wanted)}":
        yield f"{name} tells {status['ready']}, while {active} of {len(wanted)} run"


def owner(pod: Object) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["uid"])
