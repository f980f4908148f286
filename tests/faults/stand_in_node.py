"""Nodes that run no processes: pods come up and end as a script says, through the API alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import NODES, PODS
from pliant.kube.timestamps import format_timestamp
from pliant.model.labels import ATTEMPT_LABEL, REPLICA_GROUP_LABEL, REPLICA_INDEX_LABEL
from tests.virtual_time import VirtualClock

NAMES = ("node-0", "node-1", "node-2")
BIRTH = 0.2
LIFE = 2.0
GRACE = 0.5
FOR_EVER = -1


@dataclass(frozen=True)
class Stuck:
    """A container that cannot be created, and the reason the node gives."""

    reason: str = "ErrImagePull"


Script = Callable[[str, int, int], int | Stuck]
"""Group, index and attempt of a pod to the exit code it ends with, or why it cannot start."""


class StandInNodes:
    """Bind, start, end and remove pods on virtual time; what they do depends on nothing but the script."""

    def __init__(self, client: KubeClient, script: Script) -> None:
        self._client = client
        self._script = script
        self._pods = Informer(client, PODS, Pod, on_change=self._changed)
        self._nodes = Informer(client, NODES, Node)
        self._changes: asyncio.Queue[Pod] = asyncio.Queue()
        self._known: set[tuple[str, str]] = set()

    async def register(self) -> None:
        """Make the nodes known."""
        for name in NAMES:
            await self._client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})

    async def run(self) -> None:
        """Look after every pod until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            await self._nodes.wait_synced()
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

    def _is_up(self, name: str) -> bool:
        node = self._nodes.store.get("", name)
        conditions = node.status.conditions if node is not None else ()
        return not any(each.type == "Ready" and each.status != "True" for each in conditions)

    def _place(self, pod: Pod) -> str:
        """The first node that works, beginning with another one for each place and attempt."""
        _, index, attempt = _place(pod)
        first = index + attempt
        order = [NAMES[(first + number) % len(NAMES)] for number in range(len(NAMES))]
        return next(name for name in order if self._is_up(name))

    async def _live(self, pod: Pod) -> None:
        group, index, attempt = _place(pod)
        fate = self._script(group, index, attempt)
        node = self._place(pod)
        try:
            name = pod.metadata.name
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            await self._client.create(PODS, pod.metadata.namespace, binding, subresource="binding", name=name)
            await asyncio.sleep(BIRTH)
            if isinstance(fate, Stuck):
                await self._report(pod, "Pending", {"waiting": {"reason": fate.reason, "message": "no such image"}})
                return
            await self._report(pod, "Running", {"running": {"startedAt": "2030-01-01T00:00:00Z"}})
            if fate != FOR_EVER:
                # Later members end a little later, so that who is first is never left to chance.
                await asyncio.sleep(LIFE + 0.1 * index)
                ended = {"exitCode": fate, "reason": "Completed" if fate == 0 else "Error"}
                if self._is_up(node):
                    await self._report(pod, "Failed" if fate else "Succeeded", {"terminated": ended})
        except (NotFound, Conflict, Invalid):
            return  # it left, or is another by now, whose uid cannot be patched

    async def _report(self, pod: Pod, phase: str, state: dict[str, Any]) -> None:
        report = {"image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        reports = [{"name": container.name, **report} for container in pod.spec.containers]
        status = {"phase": phase, "startTime": format_timestamp(VirtualClock().now()), "containerStatuses": reports}
        await self._client.patch(
            PODS,
            pod.metadata.namespace,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": status},
            subresource="status",
        )

    async def _leave(self, pod: Pod) -> None:
        await asyncio.sleep(GRACE)
        if not self._is_up(pod.spec.node_name):
            return  # nobody is there to see it off
        try:
            await self._client.delete(
                PODS, pod.metadata.namespace, pod.metadata.name, uid=pod.metadata.uid, grace_period_seconds=0
            )
        except (NotFound, Conflict):
            return


def _place(pod: Pod) -> tuple[str, int, int]:
    """Group, index and attempt of a pod, by its labels: ours, or those of whoever else made it."""
    labels = pod.metadata.labels
    if REPLICA_GROUP_LABEL in labels:
        return labels[REPLICA_GROUP_LABEL], _number(labels, REPLICA_INDEX_LABEL), _number(labels, ATTEMPT_LABEL)
    return labels.get("elasticjob.dlrover/replica-type", ""), _number(labels, "elasticjob.dlrover/replica-index"), 0


def _number(labels: dict[str, str], name: str) -> int:
    text = labels.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
