"""Write a pod's status to its object, as seldom as can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pliant.embedded.node.link import Ending
from pliant.embedded.node.podstatus import ContainerRecord, Status, conditions, phase
from pliant.embedded.patience import patiently
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodMeta
from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.runtime.clock import Clock

_UNKNOWN = "ContainerStatusUnknown"

log = logging.getLogger(__name__)


class StatusReport:
    """What is told of one pod; held back while containers are being started, written only when it changed."""

    def __init__(self, pod: PodMeta, client: KubeClient, clock: Clock, host_address: str) -> None:
        self.address = ""
        self._pod = pod
        self._client = client
        self._clock = clock
        self._host_address = host_address
        self._policy = "Always"
        self._inits: Sequence[ContainerRecord] = ()
        self._mains: Sequence[ContainerRecord] = ()
        self._conditions: Sequence[Mapping[str, Any]] = ()
        self._started_at = ""
        self._failure: Status = {}
        self._is_over = False
        self._held = 0
        self._written: Status = {}
        self._writing = asyncio.Lock()
        self.audible = asyncio.Event()
        """Cleared while nobody is there to tell anything."""
        self.audible.set()

    def begin(
        self, raw: Mapping[str, Any], inits: Sequence[ContainerRecord], mains: Sequence[ContainerRecord]
    ) -> None:
        """Start from what the object says."""
        status = raw.get("status") or {}
        self._policy = raw["spec"].get("restartPolicy") or "Always"
        self._inits, self._mains = inits, mains
        self._conditions = status.get("conditions") or ()
        self._started_at = status.get("startTime") or timestamp(self._clock.now())

    def hold(self, containers: int) -> None:
        """Write nothing until so many containers more have been started."""
        self._held += containers

    def release(self) -> None:
        """One container has been started, or cannot be."""
        self._held -= 1

    def fail(self, reason: str, message: str) -> None:
        """The pod has failed as a whole, whatever its containers say."""
        self._failure = {"reason": reason, "message": message}

    def close(self) -> None:
        """Nothing of the pod runs or will run: a container that never came to an end has none to tell."""
        self._is_over = True
        now = timestamp(self._clock.now())
        for each in self._mains:
            if each.ended is None:
                each.note_end(now, Ending(137), _UNKNOWN, "the pod was stopped before the container had run")

    async def repeat(self) -> None:
        """Say all of it again: somebody else has had a say meanwhile."""
        self._written = {}
        await self.publish()

    async def publish(self, *, even_held: bool = False) -> None:
        """Bring the object up to date."""
        if (self._held > 0 and not even_held) or not self.audible.is_set():
            return
        async with self._writing:
            status = self._status()
            if status == self._written:
                return
            await self._write(status)
            self._written = status
            self._conditions = status["conditions"]

    def _status(self) -> Status:
        now = timestamp(self._clock.now())
        told: Status = {
            "phase": self._phase(),
            **self._failure,
            "conditions": conditions(self._conditions, self._inits, self._mains, now),
            "startTime": self._started_at,
            "hostIP": self._host_address,
            "hostIPs": [{"ip": self._host_address}],
            "containerStatuses": [each.status() for each in self._mains],
        }
        if self.address:
            told |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        if self._inits:
            told["initContainerStatuses"] = [each.status() for each in self._inits]
        return told

    def _phase(self) -> str:
        if self._failure:
            return "Failed"
        natural = phase(self._policy, self._inits, self._mains)
        if self._is_over and natural not in ("Succeeded", "Failed"):
            return "Succeeded" if all(each.has_succeeded for each in self._mains) else "Failed"
        return natural

    async def _write(self, status: Status) -> None:
        """Write until it is done, or the pod is no more."""
        pod = self._pod
        # The uid makes the server refuse, should another pod have taken the name.
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        write = partial(self._client.patch, PODS, pod.namespace, pod.name, patch, subresource="status")
        try:
            await patiently(write)
        except (NotFound, Conflict, Invalid) as problem:
            log.info("status has no reader", extra={"pod": f"{pod.namespace}/{pod.name}", "because": str(problem)})
