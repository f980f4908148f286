"""Submits jobs to a cluster and sees them run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import IO

from bench.recipe import JOBS, NAMESPACE, PODS_PER_JOB, manifest
from bench.standin import Phased
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS

SUBMITTERS = 16
PATIENCE = 120.0


class Crowd:
    """Submits jobs and sees them run."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._up = Counter[str]()
        self._wanted = Counter[str]()
        self._all_up = asyncio.Event()
        self._watches: tuple[Informer[Phased], ...] = (
            Informer(client, JOBS, Phased, namespace=NAMESPACE, on_change=self._job),
            Informer(client, PODS, Phased, namespace=NAMESPACE, on_change=self._pod),
        )

    async def follow(self) -> None:
        """Watch jobs and pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for watch in self._watches:
                tasks.create_task(watch.run())

    async def wait_served(self) -> None:
        """Return once the cluster knows our kinds."""
        for watch in self._watches:
            await watch.wait_synced()

    async def bring_up(self, names: list[str], told: IO[str] | None) -> float:
        """Submit jobs as fast as the server takes them; seconds until all of them and their pods run."""
        self._up.clear()
        self._wanted = Counter({JOBS.kind: len(names), PODS.kind: len(names) * PODS_PER_JOB})
        self._all_up.clear()
        began = time.perf_counter()
        pending = iter(names)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for _ in range(SUBMITTERS):
                tasks.create_task(self._submit(pending, told))
            await self._all_up.wait()
        return time.perf_counter() - began

    async def _submit(self, names: Iterator[str], told: IO[str] | None) -> None:
        for name in names:
            made = await self._client.create(JOBS, NAMESPACE, manifest(name), decode_as=Phased)
            if told is not None:
                told.write(f"{name} {made.metadata.uid}\n")
                told.flush()

    def _job(self, old: Phased | None, new: Phased | None) -> None:
        self._count(JOBS.kind, old, new)

    def _pod(self, old: Phased | None, new: Phased | None) -> None:
        self._count(PODS.kind, old, new)

    def _count(self, kind: str, old: Phased | None, new: Phased | None) -> None:
        self._up[kind] += _runs(new) - _runs(old)
        if self._up == self._wanted:
            self._all_up.set()


def _runs(one: Phased | None) -> int:
    return one is not None and one.status.phase == "Running"
