"""The GPU health controller: withdraws faulty GPUs and sets the GPUUnhealthy condition of their node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.controllers.gpu_probe import GpuProbe
from pliant.embedded.fault_annotations import GPU_FAULT_ANNOTATION
from pliant.embedded.retries import REJECTION_ERRORS, with_retries
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE, Gpu, GpuAllocator
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import Clock

GPU_UNHEALTHY_CONDITION: Final = "GPUUnhealthy"
_GPU_FAULT_REASON: Final = "GPUFault"
_PROBE_INTERVAL: Final = 15.0
"""Seconds between two probes of real GPUs."""

log = logging.getLogger(__name__)


class GpuHealthController:
    """Reports faults that the probe finds and faults that users simulate with an annotation."""

    def __init__(
        self, client: KubeClient, clock: Clock, allocator: GpuAllocator, probe_interval: float = _PROBE_INTERVAL
    ) -> None:
        self._client = client
        self._clock = clock
        self._allocator = allocator
        self._probe_interval = probe_interval
        self._probed_faults: Mapping[Gpu, str] = {}
        self._nodes: dict[str, Node] = {}
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Probe real GPUs periodically, and apply annotations of nodes when they change."""
        real = [gpu for gpus in self._allocator.gpus_by_node.values() for gpu in gpus if gpu.uuid]
        probe = GpuProbe(real)
        try:
            while True:
                if real:
                    self._probed_faults = await probe.find_faults()
                for name in self._allocator.gpus_by_node:
                    await self._sync_node(name)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._probe_interval if real else None):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            probe.close()

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        known = new or old
        if known is None or not self._allocator.gpus_by_node.get(known.metadata.name):
            return
        if new is None:
            self._nodes.pop(known.metadata.name, None)
        else:
            self._nodes[known.metadata.name] = new
            self._woken.set()

    async def _sync_node(self, node_name: str) -> None:
        node = self._nodes.get(node_name)
        if node is None:
            return
        gpus = self._allocator.gpus_by_node[node_name]
        faults = {gpu: self._probed_faults[gpu] for gpu in gpus if gpu in self._probed_faults}
        if fault := node.metadata.annotations.get(GPU_FAULT_ANNOTATION):
            faults[gpus[0]] = fault
        if faults != self._allocator.faults(node_name):
            await self._allocator.set_faults(node_name, faults)
            log.warning("GPU faults changed", extra={"node": node_name, "faults": _format_faults(faults) or "none"})
        if self._needs_status_update(node, faults):
            await self._patch_node_status(node_name, faults)

    def _needs_status_update(self, node: Node, faults: Mapping[Gpu, str]) -> bool:
        condition = next((each for each in node.status.conditions if each.type == GPU_UNHEALTHY_CONDITION), None)
        allocatable = node.status.allocatable.get(GPU_RESOURCE)
        if allocatable is not None and allocatable != str(len(self._allocator.healthy_gpus(node.metadata.name))):
            return True
        if condition is None or condition.reason != _GPU_FAULT_REASON:
            return bool(faults)  # a condition that another component set stays
        return (condition.status == "True", condition.message) != (bool(faults), _format_faults(faults))

    async def _patch_node_status(self, node_name: str, faults: Mapping[Gpu, str]) -> None:
        now = format_timestamp(self._clock.now())
        condition = {
            "type": GPU_UNHEALTHY_CONDITION,
            "status": "True" if faults else "False",
            "reason": _GPU_FAULT_REASON,
            "message": _format_faults(faults),
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {
            "allocatable": {GPU_RESOURCE: str(len(self._allocator.healthy_gpus(node_name)))},
            "conditions": [condition],
        }
        write = partial(self._client.patch, NODES, None, node_name, {"status": status})
        try:
            await with_retries(partial(write, content_type=STRATEGIC_MERGE_PATCH, subresource="status"))
        except REJECTION_ERRORS as error:
            log.info("node status not written", extra={"node": node_name, "error": str(error)})


def _format_faults(faults: Mapping[Gpu, str]) -> str:
    return "; ".join(f"{gpu}: {fault}" for gpu, fault in sorted(faults.items(), key=lambda item: item[0].index))
