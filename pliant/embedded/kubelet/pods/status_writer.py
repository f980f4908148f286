"""Write the status of a pod to its object, as rarely as possible."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from pliant.embedded.kubelet.pods.status import (
    ContainerRecord,
    ContainerRecords,
    JsonObject,
    StatusObject,
    pod_conditions,
    pod_phase,
)
from pliant.embedded.kubelet.runtime.messages import ContainerExit
from pliant.embedded.object_views import PodObjectMeta
from pliant.embedded.retries import retry_until_answered
from pliant.errors import Conflict, Forbidden, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

log = logging.getLogger(__name__)


class PodStatusWriter:
    """Writes the status of one pod when it has changed, but not while containers are being started."""

    def __init__(self, pod: PodObjectMeta, client: KubeClient, clock: Clock, host_address: str) -> None:
        self.pod_ip = ""
        self._pod = pod
        self._client = client
        self._clock = clock
        self._host_address = host_address
        self._restart_policy = "Always"
        self._init_records: ContainerRecords = ()
        self._main_records: ContainerRecords = ()
        self.ephemeral_records: list[ContainerRecord] = []
        self._conditions: Sequence[JsonObject] = ()
        self._started_at = ""
        self._failure: StatusObject = {}
        self._is_stopped = False
        self._pending_starts = 0
        self._last_written: StatusObject = {}
        self._write_lock = asyncio.Lock()
        self.device_statuses: Callable[[str], list[StatusObject]] = lambda _: []
        """Returns the health of the devices of a container."""
        self.node_connected = asyncio.Event()
        """Cleared while the node has a simulated failure; the status is not written then."""
        self.node_connected.set()

    def initialize_from_pod(
        self, pod_object: JsonObject, init_records: ContainerRecords, main_records: ContainerRecords
    ) -> None:
        """Take over the restart policy, conditions and start time of the pod object."""
        status = pod_object.get("status") or {}
        self._restart_policy = pod_object["spec"].get("restartPolicy") or "Always"
        self._init_records, self._main_records = init_records, main_records
        self._conditions = status.get("conditions") or ()
        self._started_at = status.get("startTime") or format_timestamp(self._clock.now())

    @property
    def has_started_containers(self) -> bool:
        records = (*self._init_records, *self._main_records)
        return any(record.is_running or record.terminated_state is not None for record in records)

    def restart_count(self, container: str) -> int:
        """Return the number of restarts of a container, which is in the name of its current run."""
        records = (*self._init_records, *self._main_records)
        return next((record.restart_count for record in records if record.name == container), 0)

    @property
    def has_published(self) -> bool:
        return bool(self._last_written)

    def hold_writes_until_started(self, container_count: int) -> None:
        """Write nothing until `note_container_started` was called this many more times."""
        self._pending_starts += container_count

    def note_container_started(self) -> None:
        """Note that a container was started, or cannot be started."""
        self._pending_starts -= 1

    def set_failed(self, reason: str, message: str) -> None:
        """Set the phase of the pod to Failed, regardless of its containers."""
        self._failure = {"reason": reason, "message": message}

    def mark_pod_stopped(self) -> None:
        """Note that no container of the pod runs or will run, and terminate those that never ran."""
        self._is_stopped = True
        now = format_timestamp(self._clock.now())
        message = "The container could not be located when the pod was terminated"
        for record in self._main_records:
            if record.terminated_state is None:
                record.set_terminated(now, ContainerExit(137), "ContainerStatusUnknown", message)

    def keep_device_statuses(self) -> None:
        """Go on reporting the current health of the devices, which the pod is about to release."""
        names = [record.name for record in (*self._init_records, *self._main_records)]
        last = {name: self.device_statuses(name) for name in names}
        self.device_statuses = last.__getitem__

    async def republish(self) -> None:
        """Write the status even if it has not changed since the last write."""
        self._last_written = {}
        await self.publish_if_changed()

    async def publish_if_changed(self, *, even_if_held: bool = False) -> None:
        """Write the status if it has changed."""
        if (self._pending_starts > 0 and not even_if_held) or not self.node_connected.is_set():
            return
        async with self._write_lock:
            status = self._build_status()
            if status == self._last_written:
                return
            await self._patch_status(status)
            self._last_written = status
            self._conditions = status["conditions"]

    def _build_status(self) -> StatusObject:
        now = format_timestamp(self._clock.now())
        status: StatusObject = {
            "phase": self._current_phase(),
            **self._failure,
            "conditions": pod_conditions(self._conditions, self._init_records, self._main_records, now),
            "startTime": self._started_at,
            "hostIP": self._host_address,
            "hostIPs": [{"ip": self._host_address}],
            "containerStatuses": self._build_container_statuses(self._main_records),
        }
        if self.pod_ip:
            status |= {"podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}]}
        if self._init_records:
            status["initContainerStatuses"] = self._build_container_statuses(self._init_records)
        if self.ephemeral_records:
            status["ephemeralContainerStatuses"] = [record.build_status() for record in self.ephemeral_records]
        return status

    def _build_container_statuses(self, records: ContainerRecords) -> list[StatusObject]:
        statuses = [(record.build_status(), self.device_statuses(record.name)) for record in records]
        return [{**status, "allocatedResourcesStatus": each} if each else status for status, each in statuses]

    def _current_phase(self) -> str:
        if self._failure:
            return "Failed"
        phase = pod_phase(self._restart_policy, self._init_records, self._main_records)
        if self._is_stopped and phase not in ("Succeeded", "Failed"):
            return "Succeeded" if all(record.has_succeeded for record in self._main_records) else "Failed"
        return phase

    async def _patch_status(self, status: StatusObject) -> None:
        pod = self._pod
        # With the uid, the API server rejects the patch if another pod has the name.
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        write = partial(self._client.patch, PODS, pod.namespace, pod.name, patch, subresource="status")
        try:
            await retry_until_answered(write)
        except (NotFound, Conflict, Invalid, Forbidden) as error:
            extra = {"pod": f"{pod.namespace}/{pod.name}", "error": str(error)}
            log.info("pod is gone: status not written", extra=extra)
