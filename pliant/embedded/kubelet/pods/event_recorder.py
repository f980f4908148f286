"""Tell what happens to pods where `kubectl describe` looks, once for each thing."""

from __future__ import annotations

import hashlib
import logging

from pliant.embedded.object_views import PodObjectMeta
from pliant.errors import AlreadyExists, ApiError
from pliant.kube.client import KubeClient
from pliant.kube.resources import EVENTS
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

log = logging.getLogger(__name__)


class PodEventRecorder:
    """Writes events about pods; that one cannot be written never stands in the way of the work."""

    def __init__(self, client: KubeClient, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._component = component

    async def emit_warning(self, pod: PodObjectMeta, reason: str, message: str) -> None:
        """Tell of one problem; telling it again changes nothing."""
        await self._create_event(pod, "Warning", reason, message)

    async def emit_normal(self, pod: PodObjectMeta, reason: str, message: str) -> None:
        """Tell of something that is in order."""
        await self._create_event(pod, "Normal", reason, message)

    async def _create_event(self, pod: PodObjectMeta, event_type: str, reason: str, message: str) -> None:
        stamp = format_timestamp(self._clock.now())
        digest = hashlib.sha256(f"{pod.uid}/{reason}/{message}".encode()).hexdigest()[:16]
        about = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name}.{digest}", "namespace": pod.namespace},
            "involvedObject": about,
            "type": event_type,
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
