"""Whatever people do to a cluster: the account of it stays right, plans come to rest, and nothing goes wrong."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from pliant.autoscale.cooldowns import ResizeCooldowns
from pliant.controllers.autoscale.node_usage import ClusterNodeUsage
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.autoscale.pod_shapes import PodShapeCache
from pliant.errors import Conflict, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.resources import NODES, PODS
from pliant.runtime.controller import ReconcileResult
from tests.controllers.autoscaling import Stage, seconds, staged
from tests.faults.rig import JOBS
from tests.virtual_time import on_virtual_time

NODE_NAMES = ("node-0", "node-1", "node-2")
STEPS = 50


class People:
    """Who do things to a cluster, by lot."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance
        self._jobs: list[str] = []
        self._pods: list[str] = []
        self._count = 0

    async def act(self) -> None:
        """Do something, and let some time pass."""
        self._count += 1
        deeds: list[Callable[[], Awaitable[None]]] = [
            *(self._submit, self._run, self._run, self._stop, self._delete),
            *(self._resize, self._suspend, self._cordon, self._annotate),
        ]
        with suppress(NotFound, Conflict):
            await self._chance.choice(deeds)()
        await seconds(self._chance.choice([0.1, 0.5, 2.0, 5.0]))

    async def _submit(self) -> None:
        if len(self._jobs) < 6:
            self._jobs.append(f"job-{self._count}")
            most, cpu = self._chance.randint(4, 8), self._chance.choice(["500m", "1", "2"])
            size = self._chance.randint(1, 4)
            await self._stage.submit(self._jobs[-1], size, cpu=cpu, minReplicas=1, maxReplicas=most)

    async def _run(self) -> None:
        self._pods.append(f"pod-{self._count}")
        await self._stage.pod(self._pods[-1], self._chance.choice(["500m", "1", "3"]))

    async def _stop(self) -> None:
        if self._pods:
            name = self._pods.pop(self._chance.randrange(len(self._pods)))
            await self._stage.client.delete(PODS, "default", name)

    async def _delete(self) -> None:
        if self._jobs and self._chance.random() < 0.4:
            name = self._jobs.pop(self._chance.randrange(len(self._jobs)))
            await self._stage.client.delete(JOBS, "default", name)
            for pod in (await self._stage.client.list(PODS, "default")).items:  # nobody else collects them here
                if pod["metadata"]["name"].startswith(f"{name}-"):
                    await self._stage.client.delete(PODS, "default", pod["metadata"]["name"])

    async def _resize(self) -> None:
        size = self._chance.randint(1, 4)
        await self._edit({"spec": {"replicaSpecs": {"worker": {"replicas": size}}}})

    async def _suspend(self) -> None:
        await self._edit({"spec": {"suspend": self._chance.random() < 0.3}})

    async def _annotate(self) -> None:
        word = self._chance.choice(["on", "off", "recommend", "edl", "goodput"])
        await self._edit({"metadata": {"annotations": {"pliant/autoscale": word}}})

    async def _edit(self, change: dict[str, object]) -> None:
        if self._jobs:
            await self._stage.edit(self._chance.choice(self._jobs), change)

    async def _cordon(self) -> None:
        is_closed = self._chance.random() < 0.3
        name = self._chance.choice(NODE_NAMES)
        await self._stage.client.patch(NODES, None, name, {"spec": {"unschedulable": is_closed}})


@pytest.mark.parametrize(("seed", "policy"), [(1, "fair"), (2, "edl"), (3, "goodput")])
@on_virtual_time
async def test_plans_come_to_rest_and_the_account_is_right(seed: int, policy: str) -> None:
    pace = ResizeCooldowns(opposite_direction_cooldown=2.0, manual_edit_freeze=20.0, regrow_backoff=5.0)
    async with staged(nodes=len(NODE_NAMES), options=AutoscaleOptions(policy=policy, cooldowns=pace)) as stage:
        people = People(stage, random.Random(seed))
        for _ in range(STEPS):
            await people.act()
        scaler = stage.operator.autoscaler
        assert scaler is not None
        await seconds(600)
        rounds = stage.rounds()
        await seconds(600)
        assert stage.rounds() == rounds, "still planning when everything is at rest"
        assert scaler.controller.results[ReconcileResult.FAILED] == 0
        anew = ClusterNodeUsage(PodShapeCache(ObjectStore()))
        for pod in scaler.cluster_informers.pods.store.all():
            anew.apply_pod_change(None, pod)
        kept = scaler.cluster_informers.usage
        assert (anew.used_by_node, anew.requested_by_namespace, anew.placements) == (
            kept.used_by_node,
            kept.requested_by_namespace,
            kept.placements,
        )
        assert (anew.pending, anew.terminating) == (kept.pending, kept.terminating)
        for job in (await stage.client.list(JOBS, "default")).items:
            [told] = job["status"]["scaling"]
            assert told["min"] <= told["size"] <= told["max"]
