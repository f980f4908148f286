"""Replicas on paper that save their state on request, and notice if their pod is deleted before they have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pliant.errors import Conflict, Invalid, NotFound
from pliant.frontends.status.engine_state import load_state
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS, Resource
from pliant.model.departures import Departure
from pliant.model.labels import ACKNOWLEDGED_CHECKPOINT_ANNOTATION, acknowledged_checkpoint
from tests.virtual_time import VirtualClock

Delay = Callable[[int], float | None]
"""The index of a replica to the seconds that it takes to save its state; None if it does not manage to."""


class SavingReplicas:
    """Announce every running replica, and acknowledge the requests to it."""

    def __init__(self, client: KubeClient, jobs: Resource, delay: Delay) -> None:
        self.deleted_early: list[str] = []
        """Replicas that were deleted although they might still have saved their state, or were not asked."""
        self._client = client
        self._delay = delay
        self._pods = Informer(client, PODS, Pod, on_change=self._pod_changed)
        self._jobs = Informer(client, jobs, dict, on_change=self._job_changed)
        self._asked: dict[str, Departure] = {}
        self._writes: asyncio.Queue[tuple[Pod, int, float]] = asyncio.Queue()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            tasks.create_task(self._pods.run())
            while True:
                tasks.create_task(self._acknowledge(*await self._writes.get()))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        is_new = old is None or old.metadata.uid != new.metadata.uid
        if new.status.phase == "Running" and (old is None or is_new or old.status.phase != "Running"):
            self._writes.put_nowait((new, 0, 0.0))
        if new.metadata.deletion_timestamp and (old is None or is_new or not old.metadata.deletion_timestamp):
            self._check(new)

    def _job_changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        state = load_state(new.get("status") or {}) if new is not None else None
        for uid, departure in state.departures.items() if state is not None else ():
            known, delay = self._asked.get(uid), self._delay(departure.index)
            self._asked[uid] = departure
            if (known is None or known.request != departure.request) and delay is not None:
                pod = next(pod for pod in self._pods.store.all() if pod.metadata.uid == uid)
                self._writes.put_nowait((pod, departure.request, delay))

    def _check(self, pod: Pod) -> None:
        acknowledged, departure = acknowledged_checkpoint(pod.metadata.annotations), self._asked.get(pod.metadata.uid)
        if acknowledged is None:
            return
        is_over = departure is not None and VirtualClock().now() >= departure.deadline
        if departure is None or (acknowledged < departure.request and not is_over):
            self.deleted_early.append(pod.metadata.name)

    async def _acknowledge(self, pod: Pod, number: int, delay: float) -> None:
        await asyncio.sleep(delay)
        patch = {"uid": pod.metadata.uid, "annotations": {ACKNOWLEDGED_CHECKPOINT_ANNOTATION: str(number)}}
        try:
            await self._client.patch(PODS, pod.metadata.namespace, pod.metadata.name, {"metadata": patch})
        except (NotFound, Conflict, Invalid):
            return  # its pod is gone
