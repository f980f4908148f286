"""Start the ephemeral containers that are added to a running pod."""

from __future__ import annotations

import asyncio
from functools import partial

from pliant.embedded.kubelet.pods.container_runner import ContainerRunner
from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.status import ContainerRecord
from pliant.embedded.retries import retry_until_answered
from pliant.errors import Forbidden, NotFound
from pliant.kube.resources import PODS


class EphemeralContainers:
    """Runs each ephemeral container of a pod once; the pod terminates them when it ends and does not wait for them."""

    def __init__(self, pod: PodContext) -> None:
        self._pod = pod
        self._requested_count = 0
        self._tasks: asyncio.TaskGroup | None = None

    def request(self, count: int) -> None:
        """Start the ephemeral containers of the pod, `count` in all, that were not started before."""
        if count > self._requested_count:
            self._requested_count = count
            self._start_new()

    def run_in(self, tasks: asyncio.TaskGroup | None) -> None:
        """Run ephemeral containers in this task group from now on; with None, start no more of them."""
        self._tasks = tasks
        self._start_new()

    def _start_new(self) -> None:
        if self._tasks is not None and self._requested_count:
            self._tasks.create_task(self._run_new(self._tasks))

    async def _run_new(self, tasks: asyncio.TaskGroup) -> None:
        for record in await self._read_new_records():
            tasks.create_task(self._run(record))

    async def _read_new_records(self) -> list[ContainerRecord]:
        pod, writer = self._pod, self._pod.status_writer
        get = partial(pod.deps.client.get, PODS, pod.meta.namespace, pod.meta.name)
        try:
            pod_object = await retry_until_answered(get)
        except (NotFound, Forbidden):
            return []
        if pod_object["metadata"]["uid"] != pod.meta.uid or pod.stopping.is_set():
            return []
        known = {record.name for record in writer.ephemeral_records}
        specs = [each for each in pod_object["spec"].get("ephemeralContainers") or () if each["name"] not in known]
        records = [ContainerRecord(spec=spec, is_ephemeral=True) for spec in specs]
        writer.ephemeral_records.extend(records)
        return records

    async def _run(self, record: ContainerRecord) -> None:
        self._pod.status_writer.hold_writes_until_started(1)
        await ContainerRunner(self._pod, record).run_with_restarts("Never")
