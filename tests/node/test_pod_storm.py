"""Pods of every make, deleted at any moment of their lives, always leave, and leave nothing behind."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.kube.resources import PODS
from tests.depth import sample
from tests.node.running import Running, running

pytestmark = pytest.mark.usefixtures("network")

TRUE: dict[str, Any] = {"exec": {"command": ["true"]}}
FALSE: dict[str, Any] = {"exec": {"command": ["false"]}}


@pytest.mark.parametrize("seed", sample(range(3), 1, "pod storms"))
async def test_no_pod_ever_wedges(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with running(tmp_path) as cluster:
        async with asyncio.TaskGroup() as tasks:
            for number in range(12):
                tasks.create_task(_life(cluster, f"pod-{number}", random.Random(chance.random())))
        assert not (await cluster.client.list(PODS, "default")).items
        for _ in range(100):
            if not list((tmp_path / "cluster" / "pods").iterdir()):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("files of pods were left behind")


async def _life(cluster: Running, name: str, chance: random.Random) -> None:
    """Make some pod, let it be for a while, and take it away within its grace period and little more."""
    grace = chance.choice([0, 1, 2])
    inits = [_container(f"init-{n}", chance, grace, is_init=True) for n in range(chance.randrange(3))]
    mains = [_container(f"main-{n}", chance, grace) for n in range(chance.randrange(1, 3))]
    policy = chance.choice(["Always", "OnFailure", "Never"])
    await cluster.pod(name, mains, initContainers=inits, restartPolicy=policy, terminationGracePeriodSeconds=grace)
    await asyncio.sleep(chance.random() * 3)
    for _ in range(chance.choice([1, 1, 2])):
        try:
            await cluster.client.delete(PODS, "default", name)
        except NotFound:
            break
    await cluster.until_gone(name, within=grace + 12)


def _container(name: str, chance: random.Random, grace: int, *, is_init: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "image": "none"}
    made["command"] = [
        "sh",
        "-c",
        chance.choice(["sleep 60", "trap '' TERM; sleep 60; sleep 60", "sleep 0.3", "exit 1"]),
    ]
    if is_init and chance.random() < 0.5:
        made["command"] = ["true"]
        return made
    if is_init:
        made["restartPolicy"] = "Always"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if chance.random() < 0.3:
            asked = chance.choice([TRUE, TRUE, FALSE, {"tcpSocket": {"port": 9}}])
            made[probe] = {**asked, "periodSeconds": 1, "failureThreshold": chance.choice([1, 2])}
    hooks = {}
    nap = {"sleep": {"seconds": min(1, grace)}}  # at most the grace period is valid
    if chance.random() < 0.3:
        hooks["postStart"] = chance.choice([TRUE, FALSE, nap])
    if chance.random() < 0.3:
        hooks["preStop"] = chance.choice([TRUE, FALSE, nap, {"exec": {"command": ["sleep", "60"]}}])
    return {**made, "lifecycle": hooks} if hooks else made
