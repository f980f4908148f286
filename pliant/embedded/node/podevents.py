"""Tell what happens to pods where `kubectl describe` looks, once for each thing."""

from __future__ import annotations

import hashlib
import logging

from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodMeta
from pliant.errors import AlreadyExists, ApiError
from pliant.kube.client import KubeClient
from pliant.kube.resources import EVENTS
from pliant.runtime.clock import Clock

log = logging.getLogger(__name__)


class PodEvents:
    """Writes events about pods; that one cannot be written never stands in the way of the work."""

    def __init__(self, client: KubeClient, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._component = component

    async def warn(self, pod: PodMeta, reason: str, message: str) -> None:
        """Tell of one problem; telling it again changes nothing."""
        await self._write(pod, "Warning", reason, message)

    async def tell(self, pod: PodMeta, reason: str, message: str) -> None:
        """Tell of something that is in order."""
        await self._write(pod, "Normal", reason, message)

    async def _write(self, pod: PodMeta, kind: str, reason: str, message: str) -> None:
        stamp = timestamp(self._clock.now())
        digest = hashlib.sha256(f"{pod.uid}/{reason}/{message}".encode()).hexdigest()[:16]
        about = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name}.{digest}", "namespace": pod.namespace},
            "involvedObject": about,
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            await self._client.create(EVENTS, pod.namespace, body)
        except AlreadyExists:
            return
        except ApiError as error:
            log.warning("event not written", extra={"pod": f"{pod.namespace}/{pod.name}", "because": str(error)})
