"""A kubelet that runs nothing: every pod is Running as soon as it is seen.

python -m bench.standin KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from pliant.errors import NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock

AT_ONCE = 32
WHEN = "2030-01-01T00:00:00Z"
RUNNING = {
    "phase": "Running",
    "startTime": WHEN,
    "conditions": [{"type": kind, "status": "True", "lastTransitionTime": WHEN} for kind in ("Ready", "PodScheduled")],
    "containerStatuses": [
        {
            "name": "aitj-main",
            "image": "trainer",
            "imageID": "trainer@sha256:0",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": WHEN}},
        }
    ],
}


class Status(msgspec.Struct, gc=False):
    """All of a status that matters here."""

    phase: str = ""


class Phased(msgspec.Struct):
    """All of a pod, or a job, that matters here."""

    metadata: ObjectMeta
    status: Status = msgspec.field(default_factory=Status)


class StandIn:
    """Marks pods."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._pods = Informer(client, PODS, Phased, on_change=self._changed)
        self._pending: asyncio.Queue[ObjectMeta] = asyncio.Queue()

    async def run(self) -> None:
        """Mark every pod until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            for _ in range(AT_ONCE):
                tasks.create_task(self._mark())

    def _changed(self, old: Phased | None, new: Phased | None) -> None:
        if old is None and new is not None and new.status.phase != RUNNING["phase"]:
            self._pending.put_nowait(new.metadata)

    async def _mark(self) -> None:
        while True:
            pod = await self._pending.get()
            try:
                await self._client.patch(
                    PODS, pod.namespace, pod.name, {"status": RUNNING}, subresource="status", decode_as=Phased
                )
            except NotFound:
                continue  # it was deleted meanwhile


async def main(kubeconfig: Path) -> None:
    """Stand in for all kubelets of a cluster."""
    transport = create_transport(kubeconfig, None, SystemClock().now)
    try:
        await StandIn(KubeClient(transport)).run()
    finally:
        await transport.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
