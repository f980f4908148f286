"""The same work by kopf: children and a status when a job comes, another status when all of them run.

    python -m bench.kopf_peer KUBECONFIG RECIPE

Runs in an environment of its own, which has kopf.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import kopf  # type: ignore[import-not-found]

from bench.door import Door, opened, read_recipe

JOBS = ("elasticdeeplearning.ai", "v1", "aitrainingjobs")


class Peer:
    """Handlers, and the little that they must remember."""

    def __init__(self, kubeconfig: Path, recipe: Path) -> None:
        self._kubeconfig = kubeconfig
        writes = read_recipe(recipe)
        self._services = [write for write in writes if write.path.endswith("/services")]
        self._members = [write for write in writes if write.path.endswith("/pods")]
        self._first, self._running = (write for write in writes if write.is_status)
        self._up: dict[str, set[str]] = {}
        self._stack = AsyncExitStack()
        self._door: Door | None = None

    def register(self) -> None:
        """Let kopf know the handlers."""
        kopf.on.startup()(self.start)
        kopf.on.cleanup()(self.stop)
        kopf.on.login()(kopf.login_with_kubeconfig)
        kopf.on.create(*JOBS)(self.create)
        kopf.on.event("pods", labels={"app.kubernetes.io/managed-by": "pliant"})(self.pod)

    async def start(self, settings: Any, **_: Any) -> None:
        """Spare kopf what the others do not do either: events, and looking for new kinds."""
        settings.posting.enabled = False
        settings.scanning.disabled = True
        self._door = await self._stack.enter_async_context(opened(self._kubeconfig))

    async def stop(self, **_: Any) -> None:
        """Leave the cluster."""
        await self._stack.aclose()

    async def create(self, name: str, uid: str, **_: Any) -> None:
        """Names before members, and the first status before the second can come."""
        door = self._door
        assert door is not None
        await asyncio.gather(*(door.send(write, name, uid) for write in (*self._services, self._first)))
        await asyncio.gather(*(door.send(write, name, uid) for write in self._members))

    async def pod(self, name: str, body: Any, **_: Any) -> None:
        """Count who runs; with the last one comes the second status."""
        if body.get("status", {}).get("phase") != "Running":
            return
        job = body["metadata"]["ownerReferences"][0]
        up = self._up.setdefault(job["uid"], set())
        if name not in up:
            up.add(name)
            if len(up) == len(self._members) and self._door is not None:
                await self._door.send(self._running, job["name"], job["uid"])


if __name__ == "__main__":
    os.environ["KUBECONFIG"] = sys.argv[1]
    Peer(Path(sys.argv[1]), Path(sys.argv[2])).register()
    kopf.run(standalone=True, clusterwide=True)
