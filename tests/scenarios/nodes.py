"""Nodes on paper: made by a test through the API, served by a kubelet of the test, failing when the test wants.

No process runs on them, so that a node can be lost within milliseconds, on any cluster, without harm to others.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from pliant.errors import Conflict, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.codec import WatchEventType
from pliant.kube.resources import NODES
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import SystemClock
from tests.scenarios.jobs import Manifest
from tests.scenarios.laws import Object
from tests.scenarios.paper import STUCK_REASONS, Behaviour, Ends, Evicted, PaperKubelet, Runs, Script, Stuck
from tests.scenarios.scene import PATIENCE, Scene

PAPER = "pliant.test/paper"
"""The label and the taint of nodes on paper, with the mark of the test they belong to."""
GPU = "nvidia.com/gpu"
GPU_FAULT = "GPUUnhealthy"
"""A condition that is true of nodes with a broken GPU."""
_AWAY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that controllers put on nodes that are not ready, and take away again."""


@asynccontextmanager
async def paper_nodes(
    scene: Scene, number: int = 1, *, gpus: int = 0, made: PaperNodes | None = None
) -> AsyncIterator[PaperNodes]:
    """Nodes that take the pods of this scene alone; at the end whatever the scene holds goes, and so do they."""
    nodes = made or PaperNodes(scene, number, gpus)
    kubelet = asyncio.create_task(nodes.kubelet.run())
    try:
        await nodes.kubelet.wait_synced()
        for name in nodes.names:
            await nodes.restore(name)
        yield nodes
    finally:
        await nodes.close()
        kubelet.cancel()
        await asyncio.wait([kubelet])
    if not kubelet.cancelled():
        kubelet.result()


class PaperNodes:
    """Some nodes, and what a test can do to them."""

    def __init__(self, scene: Scene, number: int, gpus: int) -> None:
        self.mark = uuid.uuid4().hex[:8]
        self.names = [f"paper-{self.mark}-{index}" for index in range(number)]
        self.scripts: dict[str, list[Behaviour]] = {}
        """What the members of a job do at each attempt, the last for all that follow; the others' run."""
        self.kubelet = PaperKubelet(scene.client, scene.namespace)
        self.kubelet.behaviour = self._scripted
        self._scene = scene
        self._client: KubeClient = scene.client
        self._gpus = gpus

    @property
    def fields(self) -> dict[str, Any]:
        """What makes the spec of a pod choose these nodes, and only these."""
        toleration = {"key": PAPER, "operator": "Equal", "value": self.mark, "effect": "NoSchedule"}
        return {"nodeSelector": {PAPER: self.mark}, "tolerations": [toleration]}

    def place(self, group: Manifest, *, gpus: int = 0) -> Manifest:
        """The same group, with members that come to these nodes; each may ask for GPUs."""
        placed = copy.deepcopy(group)
        spec = placed["template"]["spec"]
        spec |= self.fields
        if gpus:
            spec["containers"][0]["resources"] = {"limits": {GPU: str(gpus)}}
        return placed

    @property
    def behaviour(self) -> Script:
        """What becomes of a pod when it comes here; they do as scripted unless a test says otherwise."""
        return self.kubelet.behaviour

    @behaviour.setter
    def behaviour(self, script: Script) -> None:
        self.kubelet.behaviour = script

    def order(self, pod: str, behaviour: Behaviour) -> None:
        """Let a pod that is here already do something else from now on."""
        self.kubelet.order(pod, behaviour)

    def seat(self, choice: Callable[[Object], str]) -> dict[str, Any]:
        """Let the test choose the node of each pod; these fields make a job ask for that."""
        self.kubelet.scheduler = f"scheduler-{self.mark}"
        self.kubelet.seat = choice
        return {"schedulerName": self.kubelet.scheduler}

    def of(self, pod: str) -> str:
        """The node of a pod as last seen; empty when it has none."""
        return str(self._scene.pods.get(pod, {}).get("spec", {}).get("nodeName") or "")

    async def not_ready(self, name: str, *, dead: bool = True) -> None:
        """Make a node fail, and return when no pod is placed on it any more.

        A dead one is silent and lets go of no pod; one that is not says itself that it fails.
        """
        if dead:
            self.kubelet.abandon(name)
            words = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        else:
            words = ("False", "KubeletNotReady", "container runtime is down")
        await self._tell(name, _condition("Ready", *words))
        await self.until(name, lambda node: node is not None and bool(_AWAY & _taint_keys(node)))

    async def ready(self, name: str) -> None:
        """Make a node work, and return when pods may be placed on it."""
        await self._tell(name, _condition("Ready", "True", "KubeletReady", "the kubelet of a test is ready"))
        self.kubelet.serve(name)
        await self.until(name, lambda node: node is not None and not _AWAY & _taint_keys(node))

    async def delete(self, name: str) -> None:
        """Take a node away for good, machine and all; the objects of its pods stay."""
        self.kubelet.abandon(name)
        await self._client.delete(NODES, None, name)

    async def restore(self, name: str) -> None:
        """Make a node, or have one back that was deleted; pods that are still bound to it go on."""
        about = {"name": name, "labels": {PAPER: self.mark, "kubernetes.io/hostname": name}}
        taint = {"key": PAPER, "value": self.mark, "effect": "NoSchedule"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": about, "spec": {"taints": [taint]}}
        await self._client.create(NODES, None, body)
        has = {"cpu": "64", "memory": "256Gi", "pods": "110", **({GPU: str(self._gpus)} if self._gpus else {})}
        healthy = [_condition(f"{what}Pressure", "False", "Enough") for what in ("Memory", "Disk", "PID")]
        await self._write(name, {"capacity": has, "allocatable": has, "conditions": healthy})
        await self.ready(name)

    async def gpu_fault(self, name: str, condition: str = GPU_FAULT, *, withdrawn: int = 0) -> None:
        """Let a node say that one of its GPUs is broken; its pods go on. It may offer so many less."""
        fault = _condition(condition, "True", "XidError", "GPU 0 has fallen off the bus")
        offers = {"allocatable": {GPU: str(self._gpus - withdrawn)}} if withdrawn else {}
        await self._write(name, {**offers, "conditions": [fault]})

    async def taint(self, name: str, key: str, effect: str = "NoSchedule", value: str = "") -> None:
        """Mark a node; `NoExecute` drives pods away that do not tolerate it."""
        taint = {"key": key, "effect": effect, **({"value": value} if value else {})}
        await self._edit_taints(name, lambda taints: [*taints, taint])

    async def heal(self, name: str, condition: str = GPU_FAULT) -> None:
        """Take back every mark and the fault of a node, and have it ready."""
        await self._tell(name, _condition(condition, "False", "Healthy"))
        await self._edit_taints(name, lambda taints: [each for each in taints if each["key"] in {PAPER, *_AWAY}])
        await self.ready(name)

    async def until(self, name: str, wanted: Callable[[Object | None], bool]) -> None:
        """Wait until a node is as wanted; None is one that is not there."""
        chosen = f"metadata.name={name}"
        listing = await self._client.list(NODES, fields=chosen)
        if wanted(next(iter(listing.items), None)):
            return
        changes = self._client.watch(NODES, resource_version=listing.resource_version, fields=chosen)
        async with asyncio.timeout(PATIENCE), aclosing(changes):
            async for change in changes:
                if change.type is not WatchEventType.BOOKMARK and wanted(_present(change.type, change.object)):
                    return
        raise AssertionError(f"the watch of {name} ended")

    async def close(self) -> None:
        """Let everything in the scene go in good order, then the nodes."""
        for name in self.names:
            self.kubelet.serve(name)
        try:
            await self._scene.empty()
        finally:
            for name in self.names:
                with suppress(NotFound):
                    await self._client.delete(NODES, None, name)

    def _scripted(self, pod: Object) -> Behaviour:
        labels = pod["metadata"].get("labels") or {}
        script = self.scripts.get(labels.get("TrainingJobName", ""))
        return script[min(attempt(pod), len(script) - 1)] if script else Runs()

    async def _tell(self, name: str, condition: Object) -> None:
        await self._write(name, {"conditions": [condition]})

    async def _write(self, name: str, status: Object) -> None:
        """Conditions merge by type, so that those of others stay."""
        patch = {"status": status}
        await self._client.patch(NODES, None, name, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")

    async def _edit_taints(self, name: str, edit: Callable[[list[Object]], list[Object]]) -> None:
        while True:
            node = await self._client.get(NODES, None, name)
            node["spec"]["taints"] = edit(node["spec"].get("taints") or [])
            try:
                await self._client.replace(NODES, None, name, node)
            except Conflict:
                continue  # a controller was faster
            return


def attempt(pod: Object) -> int:
    """How often the member that a pod stands for was started anew."""
    return int(pod["metadata"]["labels"]["RestartCount"])


def _condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    now = format_timestamp(SystemClock().now())
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**said, "lastHeartbeatTime": now, "lastTransitionTime": now}


def _taint_keys(node: Object) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


def _present(happened: WatchEventType, node: Object | None) -> Object | None:
    return None if happened is WatchEventType.DELETED else node


__all__ = [
    "GPU_FAULT",
    "PAPER",
    "STUCK_REASONS",
    "Behaviour",
    "Ends",
    "Evicted",
    "PaperNodes",
    "Runs",
    "Stuck",
    "attempt",
    "paper_nodes",
]
