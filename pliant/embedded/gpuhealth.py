"""Watches over GPUs: a bad one is not handed out any more, and its node says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from pliant.embedded.chaos import GPU_FAULT
from pliant.embedded.gpuprobe import GpuProbe
from pliant.embedded.gpus import GPU, Gpu, GpuDesk
from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.server.lifecycle import timestamp
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES
from pliant.kube.transport import STRATEGIC_PATCH
from pliant.runtime.clock import Clock

CONDITION: Final = "GPUUnhealthy"
_REASON: Final = "GPUFault"
_EVERY: Final = 15.0
"""Seconds between two looks at real GPUs."""

log = logging.getLogger(__name__)


class GpuHealth:
    """Tells the desk and the nodes which GPUs are bad, by what was found and by what people pretend."""

    def __init__(self, client: KubeClient, clock: Clock, desk: GpuDesk, every: float = _EVERY) -> None:
        self._client = client
        self._clock = clock
        self._desk = desk
        self._every = every
        self._found: Mapping[Gpu, str] = {}
        self._nodes: dict[str, Node] = {}
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled; pretended GPUs are looked at only when somebody says something of them."""
        real = [gpu for gpus in self._desk.of_nodes.values() for gpu in gpus if gpu.uuid]
        probe = GpuProbe(real)
        try:
            while True:
                if real:
                    self._found = await probe.faults()
                for name in self._desk.of_nodes:
                    await self._settle(name)
                await self._pause(self._every if real else None)
        finally:
            probe.close()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        known = new or old
        if known is None or not self._desk.of_nodes.get(known.metadata.name):
            return
        if new is None:
            self._nodes.pop(known.metadata.name, None)
        else:
            self._nodes[known.metadata.name] = new
            self._woken.set()

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()

    async def _settle(self, name: str) -> None:
        """Bring desk and node in line with what is known."""
        node = self._nodes.get(name)
        if node is None:
            return
        gpus = self._desk.of_nodes[name]
        faults = {gpu: self._found[gpu] for gpu in gpus if gpu in self._found}
        if words := node.metadata.annotations.get(GPU_FAULT):
            faults[gpus[0]] = words
        if faults != self._desk.faults(name):
            await self._desk.note_faults(name, faults)
            log.warning("GPUs changed", extra={"node": name, "faults": _told(faults) or "none"})
        if self._is_news(node, faults):
            await self._tell(name, faults)

    def _is_news(self, node: Node, faults: Mapping[Gpu, str]) -> bool:
        told = next((each for each in node.status.conditions if each.type == CONDITION), None)
        offered = node.status.allocatable.get(GPU)
        if offered is not None and offered != str(len(self._desk.sound(node.metadata.name))):
            return True
        if told is None or told.reason != _REASON:
            return bool(faults)  # what others say of a node stays
        return (told.status == "True", told.message) != (bool(faults), _told(faults))

    async def _tell(self, name: str, faults: Mapping[Gpu, str]) -> None:
        now = timestamp(self._clock.now())
        condition = {
            "type": CONDITION,
            "status": "True" if faults else "False",
            "reason": _REASON,
            "message": _told(faults),
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {"allocatable": {GPU: str(len(self._desk.sound(name)))}, "conditions": [condition]}
        write = partial(self._client.patch, NODES, None, name, {"status": status})
        try:
            await patiently(partial(write, content_type=STRATEGIC_PATCH, subresource="status"))
        except TURNED_DOWN as refusal:
            log.info("node not told", extra={"node": name, "because": str(refusal)})


def _told(faults: Mapping[Gpu, str]) -> str:
    return "; ".join(f"{gpu}: {words}" for gpu, words in sorted(faults.items(), key=lambda each: each[0].index))
