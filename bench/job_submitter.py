"""Submits jobs to a cluster and waits until they run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import IO

from bench.fake_kubelet import ObjectWithPhase
from bench.write_recorder import JOBS, NAMESPACE, PODS_PER_JOB, job_manifest
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS

SUBMITTERS = 16
TIMEOUT = 120.0
"""Seconds until all jobs must run."""


class JobSubmitter:
    """Submits jobs and counts the jobs and pods that run."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._running = Counter[str]()
        self._expected = Counter[str]()
        self._all_running = asyncio.Event()
        self._informers: tuple[Informer[ObjectWithPhase], ...] = (
            Informer(client, JOBS, ObjectWithPhase, namespace=NAMESPACE, on_change=self._on_job_change),
            Informer(client, PODS, ObjectWithPhase, namespace=NAMESPACE, on_change=self._on_pod_change),
        )

    async def run_informers(self) -> None:
        """Watch jobs and pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    async def wait_synced(self) -> None:
        """Return once the server serves the job kind and both informers have synced."""
        for informer in self._informers:
            await informer.wait_synced()

    async def submit_and_wait(self, names: list[str], submitted: IO[str] | None) -> float:
        """Submit jobs as fast as the server accepts them; return the seconds until all jobs and pods run.

        A line with the name and the uid of each job is written to `submitted`.
        """
        self._running.clear()
        self._expected = Counter({JOBS.kind: len(names), PODS.kind: len(names) * PODS_PER_JOB})
        self._all_running.clear()
        started = time.perf_counter()
        pending = iter(names)
        async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as tasks:
            for _ in range(SUBMITTERS):
                tasks.create_task(self._submit(pending, submitted))
            await self._all_running.wait()
        return time.perf_counter() - started

    async def _submit(self, names: Iterator[str], submitted: IO[str] | None) -> None:
        for name in names:
            job = await self._client.create(JOBS, NAMESPACE, job_manifest(name), decode_as=ObjectWithPhase)
            if submitted is not None:
                submitted.write(f"{name} {job.metadata.uid}\n")
                submitted.flush()

    def _on_job_change(self, old: ObjectWithPhase | None, new: ObjectWithPhase | None) -> None:
        self._count_running(JOBS.kind, old, new)

    def _on_pod_change(self, old: ObjectWithPhase | None, new: ObjectWithPhase | None) -> None:
        self._count_running(PODS.kind, old, new)

    def _count_running(self, kind: str, old: ObjectWithPhase | None, new: ObjectWithPhase | None) -> None:
        self._running[kind] += _is_running(new) - _is_running(old)
        if self._running == self._expected:
            self._all_running.set()


def _is_running(obj: ObjectWithPhase | None) -> bool:
    return obj is not None and obj.status.phase == "Running"
