"""A node that runs no processes: pods come up and end as a script says, through the API alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Pod
from pliant.kube.resources import NODES, PODS
from pliant.model.labels import ATTEMPT, INDEX, REPLICA

NAME = "node-0"
BIRTH = 0.2
LIFE = 2.0
GRACE = 0.5
FOR_EVER = -1

Script = Callable[[str, int, int], int]
"""Group, index and attempt of a pod to the exit code it ends with."""


class StandInNode:
    """Binds, starts, ends and removes pods on virtual time; what it does depends on nothing but the script."""

    def __init__(self, client: KubeClient, script: Script) -> None:
        self._client = client
        self._script = script
        self._pods = Informer(client, PODS, Pod, on_change=self._changed)
        self._changes: asyncio.Queue[Pod] = asyncio.Queue()
        self._known: set[tuple[str, str]] = set()

    async def register(self) -> None:
        """Make the node known."""
        await self._client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})

    async def run(self) -> None:
        """Look after every pod until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            while True:
                pod = await self._changes.get()
                stage = "leaving" if pod.metadata.deletion_timestamp else "coming"
                if (pod.metadata.uid, stage) not in self._known:
                    self._known.add((pod.metadata.uid, stage))
                    tasks.create_task(self._leave(pod) if stage == "leaving" else self._live(pod))

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._changes.put_nowait(new)

    async def _live(self, pod: Pod) -> None:
        labels = pod.metadata.labels
        code = self._script(labels[REPLICA], int(labels[INDEX]), int(labels[ATTEMPT]))
        try:
            target = {"target": {"kind": "Node", "name": NAME}}
            await self._client.create(
                PODS, pod.metadata.namespace, target, subresource="binding", name=pod.metadata.name
            )
            await asyncio.sleep(BIRTH)
            await self._report(pod, "Running", {"running": {"startedAt": "2030-01-01T00:00:00Z"}})
            if code != FOR_EVER:
                # Later members end a little later, so that who is first is never left to chance.
                await asyncio.sleep(LIFE + 0.1 * int(labels[INDEX]))
                ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
                await self._report(pod, "Failed" if code else "Succeeded", {"terminated": ended})
        except (NotFound, Conflict, Invalid):
            return  # it left, or is another by now, whose uid cannot be patched

    async def _report(self, pod: Pod, phase: str, state: dict[str, Any]) -> None:
        trainer = {
            "name": "trainer",
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [trainer]}
        await self._client.patch(
            PODS,
            pod.metadata.namespace,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": status},
            subresource="status",
        )

    async def _leave(self, pod: Pod) -> None:
        await asyncio.sleep(GRACE)
        try:
            await self._client.delete(
                PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid, grace=0
            )
        except (NotFound, Conflict):
            return
