"""Starts the workload controllers when the first Deployment, ReplicaSet or Job exists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pliant.embedded.storage.store import Store
from pliant.embedded.storage.stored_objects import ObjectChange
from pliant.kube.client import KubeClient
from pliant.runtime.clock import Clock

_TRACKING_FINALIZER = b'"batch.kubernetes.io/job-tracking"'
_WORKLOAD_RESOURCE_KEYS = frozenset({"apps/deployments", "apps/replicasets", "batch/jobs"})


class WorkloadManager:
    """Waits for a workload; until then, it has no watches and has not imported the controllers."""

    def __init__(self, client: KubeClient, clock: Clock, store: Store) -> None:
        self._client = client
        self._clock = clock
        self._store = store
        self._exists = asyncio.Event()

    async def run(self) -> None:
        self._store.add_listener(self._on_commit)
        if self._has_work():
            self._exists.set()
        await self._exists.wait()
        from pliant.embedded.controllers.workloads.runner import WorkloadControllers

        await WorkloadControllers(self._client, self._clock).run()

    def _has_work(self) -> bool:
        """Return whether there are workloads, or pods with the finalizer of a job that was just deleted."""
        index = self._store.committed
        if any(index.list_objects(resource) for resource in _WORKLOAD_RESOURCE_KEYS):
            return True
        return any(_TRACKING_FINALIZER in record.body for record in index.list_objects("/pods"))

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        if not self._exists.is_set() and any(_is_workload(change) for change in changes):
            self._exists.set()


def _is_workload(change: Any) -> bool:
    return change.after.key.resource in _WORKLOAD_RESOURCE_KEYS
