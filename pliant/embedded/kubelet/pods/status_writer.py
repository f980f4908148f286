"""Write a pod's status to its object, as seldom as can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pliant.embedded.kubelet.pods.status import ContainerRecord, StatusObject, pod_conditions, pod_phase
from pliant.embedded.kubelet.runtime.node_agent import ContainerExit
from pliant.embedded.object_views import PodObjectMeta
from pliant.embedded.retries import with_retries
from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

_STATUS_UNKNOWN_REASON = "ContainerStatusUnknown"

log = logging.getLogger(__name__)


class PodStatusWriter:
    """What is told of one pod; held back while containers are being started, written only when it changed."""

    def __init__(self, pod: PodObjectMeta, client: KubeClient, clock: Clock, host_address: str) -> None:
        self.pod_ip = ""
        self._pod = pod
        self._client = client
        self._clock = clock
        self._host_address = host_address
        self._restart_policy = "Always"
        self._init_records: Sequence[ContainerRecord] = ()
        self._main_records: Sequence[ContainerRecord] = ()
        self._conditions: Sequence[Mapping[str, Any]] = ()
        self._started_at = ""
        self._failure: StatusObject = {}
        self._is_stopped = False
        self._pending_starts = 0
        self._last_written: StatusObject = {}
        self._write_lock = asyncio.Lock()
        self.node_connected = asyncio.Event()
        """Cleared while nobody is there to tell anything."""
        self.node_connected.set()

    def load(
        self,
        pod_object: Mapping[str, Any],
        init_records: Sequence[ContainerRecord],
        main_records: Sequence[ContainerRecord],
    ) -> None:
        """Start from what the object says."""
        status = pod_object.get("status") or {}
        self._restart_policy = pod_object["spec"].get("restartPolicy") or "Always"
        self._init_records, self._main_records = init_records, main_records
        self._conditions = status.get("conditions") or ()
        self._started_at = status.get("startTime") or format_timestamp(self._clock.now())

    def hold_until_started(self, container_count: int) -> None:
        """Write nothing until so many containers more have been started."""
        self._pending_starts += container_count

    def note_started(self) -> None:
        """One container has been started, or cannot be."""
        self._pending_starts -= 1

    def set_failed(self, reason: str, message: str) -> None:
        """The pod has failed as a whole, whatever its containers say."""
        self._failure = {"reason": reason, "message": message}

    def mark_stopped(self) -> None:
        """Nothing of the pod runs or will run: a container that never came to an end has none to tell."""
        self._is_stopped = True
        now = format_timestamp(self._clock.now())
        for each in self._main_records:
            if each.terminated_state is None:
                each.set_terminated(
                    now, ContainerExit(137), _STATUS_UNKNOWN_REASON, "the pod was stopped before the container had run"
                )

    async def republish(self) -> None:
        """Say all of it again: somebody else has had a say meanwhile."""
        self._last_written = {}
        await self.publish()

    async def publish(self, *, even_if_held: bool = False) -> None:
        """Bring the object up to date."""
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
        told: StatusObject = {
            "phase": self._current_phase(),
            **self._failure,
            "conditions": pod_conditions(self._conditions, self._init_records, self._main_records, now),
            "startTime": self._started_at,
            "hostIP": self._host_address,
            "hostIPs": [{"ip": self._host_address}],
            "containerStatuses": [each.build_status() for each in self._main_records],
        }
        if self.pod_ip:
            told |= {"podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}]}
        if self._init_records:
            told["initContainerStatuses"] = [each.build_status() for each in self._init_records]
        return told

    def _current_phase(self) -> str:
        if self._failure:
            return "Failed"
        natural = pod_phase(self._restart_policy, self._init_records, self._main_records)
        if self._is_stopped and natural not in ("Succeeded", "Failed"):
            return "Succeeded" if all(each.has_succeeded for each in self._main_records) else "Failed"
        return natural

    async def _patch_status(self, status: StatusObject) -> None:
        """Write until it is done, or the pod is no more."""
        pod = self._pod
        # The uid makes the server refuse, should another pod have taken the name.
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        write = partial(self._client.patch, PODS, pod.namespace, pod.name, patch, subresource="status")
        try:
            await with_retries(write)
        except (NotFound, Conflict, Invalid) as problem:
            log.info("status has no reader", extra={"pod": f"{pod.namespace}/{pod.name}", "because": str(problem)})
