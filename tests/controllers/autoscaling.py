"""An operator with its autoscaler on virtual time: real scheduling, and a kubelet that runs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pliant.autoscale.cooldowns import ResizeCooldowns
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.operator import Operator
from pliant.errors import Conflict, Invalid, NotFound
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import CRDS, EVENTS, PODS
from pliant.model.messages import Message
from tests.embedded.placing import Places, placing
from tests.embedded.serving import pod
from tests.faults.rig import JOBS
from tests.scenarios.messages import message_of
from tests.virtual_time import VirtualClock, passing

BIRTH, GRACE = 0.2, 0.5
QUICK = AutoscaleOptions(cooldowns=ResizeCooldowns(opposite_direction_cooldown=2.0, restart_cooldown=2.0))


class Kubelet:
    """Lets pods run a moment after they were placed, and go a moment after they were told to."""

    def __init__(self, client: KubeClient) -> None:
        self.grace = GRACE
        """Seconds that pods take to go."""
        self._client = client
        self._pods = Informer(client, PODS, Pod, on_change=self._changed)
        self._changes: asyncio.Queue[Pod] = asyncio.Queue()
        self._known: set[tuple[str, str]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            while True:
                found = await self._changes.get()
                stage = "leaving" if found.metadata.deletion_timestamp else "coming"
                if found.spec.node_name and (found.metadata.uid, stage) not in self._known:
                    self._known.add((found.metadata.uid, stage))
                    tasks.create_task(self._leave(found) if stage == "leaving" else self._come(found))

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._changes.put_nowait(new)

    async def _come(self, found: Pod) -> None:
        await asyncio.sleep(BIRTH)
        await self.report(found.metadata.name, "Running", {"running": {"startedAt": "2030-01-01T00:00:00Z"}})

    async def report(self, name: str, phase: str, state: Mapping[str, Any]) -> None:
        about = {"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        status = {"phase": phase, "containerStatuses": [about]}
        with suppress(NotFound, Conflict, Invalid):
            await self._client.patch(PODS, "default", name, {"status": status}, subresource="status")

    async def _leave(self, found: Pod) -> None:
        await asyncio.sleep(self.grace)
        meta = found.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)


@dataclass
class Stage:
    """A cluster, and what a test asks of it."""

    places: Places
    kubelet: Kubelet
    operator: Operator
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def client(self) -> KubeClient:
        return self.places.client

    async def submit(self, name: str, size: int = 2, *, cpu: str = "1", **fields: Any) -> None:
        """A job of so many workers, automatic between 2 and 6 unless told otherwise."""
        annotations = fields.pop("annotations", {})
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
        bounds = {"minReplicas": 2, "maxReplicas": 6, "edlPolicy": "Auto"}
        worker = {"replicas": size, **bounds, "template": {"spec": {"containers": [container]}}, **fields}
        body = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"replicaSpecs": {"worker": {key: value for key, value in worker.items() if value is not None}}},
        }
        await self.client.create(JOBS, "default", body)

    async def edit(self, name: str, change: Mapping[str, Any]) -> None:
        await self.client.patch(JOBS, "default", name, change)

    async def pod(self, name: str, cpu: str) -> None:
        """Somebody else's pod."""
        body = pod(name)
        body["spec"]["containers"][0] |= {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        await self.client.create(PODS, "default", body)

    async def scaling(self, name: str) -> dict[str, Any]:
        """What the status of a job tells of its size."""
        status = (await self.client.get(JOBS, "default", name)).get("status") or {}
        [found] = status.get("scaling") or [{}]
        return dict(found)

    async def size(self, name: str) -> int:
        return int((await self.scaling(name)).get("size", -1))

    async def sizes(self, *names: str) -> list[int]:
        return [await self.size(name) for name in names]

    async def resizes(self, name: str) -> list[Message]:
        """Everything that was told of new sizes, the oldest first."""
        events = (await self.client.list(EVENTS, "default")).items
        mine = [each for each in events if each["reason"] == "Resized" and each["involvedObject"]["name"] == name]
        return [message_of(each) for each in sorted(mine, key=lambda each: int(each["metadata"]["resourceVersion"]))]

    def rounds(self) -> int:
        """Plans made so far."""
        assert self.operator.autoscaler is not None
        return self.operator.autoscaler.plan_durations.count

    async def restart(self, options: AutoscaleOptions | None) -> None:
        """Another operator in the place of the one at work."""
        await self.stop()
        self.operator = Operator(self.client, VirtualClock(), autoscale_options=options)
        self.tasks.append(asyncio.create_task(self.operator.run()))
        await self.operator.wait_ready()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()


@asynccontextmanager
async def staged(nodes: int = 2, options: AutoscaleOptions | None = QUICK) -> AsyncIterator[Stage]:
    """Nodes of 4 CPUs each, everything that places and runs pods on them, and an operator at work."""
    async with placing() as places:
        await places.client.create(CRDS, None, AITrainingJobFrontend().crd())
        for number in range(nodes):
            await places.node(f"node-{number}")
        kubelet = Kubelet(places.client)
        running = asyncio.create_task(kubelet.run())
        stage = Stage(places, kubelet, Operator(places.client, VirtualClock(), autoscale_options=options))
        stage.tasks.append(asyncio.create_task(stage.operator.run()))
        await stage.operator.wait_ready()
        try:
            yield stage
        finally:
            await stage.stop()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def seconds(number: float) -> None:
    """Let so much time pass."""
    await passing(timedelta(seconds=number))
