"""Tells people what happened to a job, where `kubectl describe` looks."""

from __future__ import annotations

import hashlib
import logging

from pliant.errors import AlreadyExists, ApiError
from pliant.kube.client import KubeClient
from pliant.kube.resources import EVENTS
from pliant.model.actions import EmitEvent
from pliant.model.job import Owner
from pliant.runtime.clock import Clock

COMPONENT = "pliant"

log = logging.getLogger(__name__)


class EventRecorder:
    """Writes events; that one cannot be written never stands in the way of the work."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def emit(self, about: Owner, namespace: str, event: EmitEvent) -> None:
        """Tell one thing about one object; telling it again changes nothing."""
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        # The name is made of what is told: a repetition after a crash meets its first telling.
        digest = hashlib.sha256(f"{about.uid}/{event.reason}/{event.message}".encode()).hexdigest()[:16]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{digest}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": namespace,
                "uid": about.uid,
            },
            "reason": event.reason,
            "message": event.message[:1024],
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            await self._client.create(EVENTS, namespace, body)
        except AlreadyExists:
            return
        except ApiError as error:
            log.warning("event not written", extra={"about": f"{namespace}/{about.name}", "because": str(error)})
