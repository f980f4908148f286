"""A fake kubelet: marks every new pod as Running and starts no process.

python -m bench.fake_kubelet KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from pliant.errors import NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock

CONCURRENCY = 32
TIMESTAMP = "2030-01-01T00:00:00Z"
RUNNING_STATUS = {
    "phase": "Running",
    "startTime": TIMESTAMP,
    "conditions": [
        {"type": condition, "status": "True", "lastTransitionTime": TIMESTAMP}
        for condition in ("Ready", "PodScheduled")
    ],
    "containerStatuses": [
        {
            "name": "aitj-main",
            "image": "trainer",
            "imageID": "trainer@sha256:0",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": TIMESTAMP}},
        }
    ],
}


class PhaseStatus(msgspec.Struct, gc=False):
    """The phase of a status; other fields are not decoded."""

    phase: str = ""


class ObjectWithPhase(msgspec.Struct):
    """The metadata and the phase of a pod or a job."""

    metadata: ObjectMeta
    status: PhaseStatus = msgspec.field(default_factory=PhaseStatus)


class FakeKubelet:
    """Marks pods of all nodes as Running."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._pods = Informer(client, PODS, ObjectWithPhase, on_change=self._on_pod_change)
        self._pending: asyncio.Queue[ObjectMeta] = asyncio.Queue()
        self._addresses = (str(address) for address in IPv4Network("10.64.0.0/10").hosts())

    async def run(self) -> None:
        """Mark new pods as Running until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            for _ in range(CONCURRENCY):
                tasks.create_task(self._mark_pods())

    def _on_pod_change(self, old: ObjectWithPhase | None, new: ObjectWithPhase | None) -> None:
        if old is None and new is not None and new.status.phase != RUNNING_STATUS["phase"]:
            self._pending.put_nowait(new.metadata)

    async def _mark_pods(self) -> None:
        while True:
            pod, address = await self._pending.get(), next(self._addresses)
            status = {**RUNNING_STATUS, "podIP": address, "podIPs": [{"ip": address}]}
            try:
                await self._client.patch(
                    PODS, pod.namespace, pod.name, {"status": status}, subresource="status", decode_as=ObjectWithPhase
                )
            except NotFound:
                continue  # the pod was deleted in the meantime


async def main(kubeconfig: Path) -> None:
    """Replace all kubelets of a cluster."""
    transport = create_transport(kubeconfig, None, SystemClock().now)
    try:
        await FakeKubelet(KubeClient(transport)).run()
    finally:
        await transport.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
