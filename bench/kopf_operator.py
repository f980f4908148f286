"""A kopf operator that sends the same writes: children and a status for a new job, a second status when all pods run.

    python -m bench.kopf_operator KUBECONFIG WRITES

Runs in a separate virtual environment in which kopf is installed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import kopf  # type: ignore[import-not-found]

from bench.recorded_writes import WriteSender, open_sender, read_writes

JOBS = ("elasticdeeplearning.ai", "v1", "aitrainingjobs")


class KopfOperator:
    """The kopf handlers and their state."""

    def __init__(self, kubeconfig: Path, writes_path: Path) -> None:
        self._kubeconfig = kubeconfig
        writes = read_writes(writes_path)
        self._service_writes = [write for write in writes if write.path.endswith("/services")]
        self._pod_writes = [write for write in writes if write.path.endswith("/pods")]
        self._first_status, self._running_status = (write for write in writes if write.is_status)
        self._running_pods: dict[str, set[str]] = {}
        self._stack = AsyncExitStack()
        self._sender: WriteSender | None = None

    def register_handlers(self) -> None:
        """Register the handlers with kopf."""
        kopf.on.startup()(self.start)
        kopf.on.cleanup()(self.stop)
        kopf.on.login()(kopf.login_with_kubeconfig)
        kopf.on.create(*JOBS)(self.handle_job_created)
        kopf.on.event("pods", labels={"app.kubernetes.io/managed-by": "pliant"})(self.handle_pod_event)

    async def start(self, settings: Any, **_: Any) -> None:
        """Disable what the other variants do not do either: events and the discovery of new kinds."""
        settings.posting.enabled = False
        settings.scanning.disabled = True
        self._sender = await self._stack.enter_async_context(open_sender(self._kubeconfig))

    async def stop(self, **_: Any) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def handle_job_created(self, name: str, uid: str, **_: Any) -> None:
        """Create services and write the first status, then create pods, so that the second status comes later."""
        sender = self._sender
        assert sender is not None
        await asyncio.gather(*(sender.send(write, name, uid) for write in (*self._service_writes, self._first_status)))
        await asyncio.gather(*(sender.send(write, name, uid) for write in self._pod_writes))

    async def handle_pod_event(self, name: str, body: Any, **_: Any) -> None:
        """Count running pods; write the second status when the last pod of a job runs."""
        if body.get("status", {}).get("phase") != "Running":
            return
        job = body["metadata"]["ownerReferences"][0]
        running = self._running_pods.setdefault(job["uid"], set())
        if name not in running:
            running.add(name)
            if len(running) == len(self._pod_writes) and self._sender is not None:
                await self._sender.send(self._running_status, job["name"], job["uid"])


if __name__ == "__main__":
    os.environ["KUBECONFIG"] = sys.argv[1]
    KopfOperator(Path(sys.argv[1]), Path(sys.argv[2])).register_handlers()
    kopf.run(standalone=True, clusterwide=True)
