"""Record events about pods, each distinct event once."""

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
    """Writes events about pods; an event that cannot be written is only logged."""

    def __init__(self, client: KubeClient, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._component = component

    def with_client(self, client: KubeClient) -> PodEventRecorder:
        """Return a recorder that writes the same events with another identity."""
        return PodEventRecorder(client, self._clock, self._component)

    async def emit_warning(self, pod: PodObjectMeta, reason: str, message: str) -> None:
        await self._create_event(pod, "Warning", reason, message)

    async def emit_normal(self, pod: PodObjectMeta, reason: str, message: str) -> None:
        await self._create_event(pod, "Normal", reason, message)

    async def _create_event(self, pod: PodObjectMeta, event_type: str, reason: str, message: str) -> None:
        timestamp = format_timestamp(self._clock.now())
        # The name is a digest, so that the API server rejects a repeated event.
        digest = hashlib.sha256(f"{pod.uid}/{reason}/{message}".encode()).hexdigest()[:16]
        regarding = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name}.{digest}", "namespace": pod.namespace},
            "involvedObject": regarding,
            "type": event_type,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": timestamp,
            "lastTimestamp": timestamp,
            "count": 1,
        }
        try:
            await self._client.create(EVENTS, pod.namespace, event)
        except AlreadyExists:
            return
        except ApiError as error:
            log.warning("event not written", extra={"pod": f"{pod.namespace}/{pod.name}", "error": str(error)})
