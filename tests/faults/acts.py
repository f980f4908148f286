"""What people and nodes do to a job while an operator looks after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES, PODS
from pliant.kube.timestamps import format_timestamp
from tests.faults.rig import JOBS
from tests.faults.stand_in_node import NAMES
from tests.virtual_time import VirtualClock


async def in_turn(*acts: Awaitable[None]) -> None:
    """One act after the other."""
    for act in acts:
        await act


async def scale_to(client: KubeClient, size: int, after: float) -> None:
    await asyncio.sleep(after)
    await client.patch(JOBS, "default", "demo", {"spec": {"replicas": size}}, subresource="scale")


async def edit_to(client: KubeClient, size: int, after: float) -> None:
    await _edit_job(client, {"spec": {"replicaSpecs": {"worker": {"replicas": size}}}}, after)


async def delete_job(client: KubeClient, after: float) -> None:
    await asyncio.sleep(after)
    await client.delete(JOBS, "default", "demo")


async def delete_pod(client: KubeClient, name: str, after: float) -> None:
    await asyncio.sleep(after)
    await client.delete(PODS, "default", name)


async def suspend(client: KubeClient, value: bool, after: float) -> None:
    await _edit_job(client, {"spec": {"suspend": value}}, after)


async def annotate(client: KubeClient, key: str, message: str, after: float) -> None:
    await _edit_job(client, {"metadata": {"annotations": {key: message}}}, after)


async def evict(client: KubeClient, pod: str, after: float) -> None:
    """What a node writes that is short of memory."""
    await asyncio.sleep(after)
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
    await client.patch(PODS, "default", pod, {"status": status}, subresource="status")


async def lose_node(client: KubeClient, name: str, after: float) -> None:
    """A node that is heard of no more."""
    await _tell(client, name, {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}, after)


async def break_gpu(client: KubeClient, name: str, after: float) -> None:
    """A node that tells of a fault in one of its devices, and works on."""
    await _tell(client, name, {"type": "GPUUnhealthy", "status": "True", "reason": "XidError"}, after)


async def offer(client: KubeClient, cpu: str, after: float) -> None:
    """Nodes that are ready, with so much room each."""
    await asyncio.sleep(after)
    for name in NAMES:
        status = {"allocatable": {"cpu": cpu, "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(NODES, None, name, {"status": status}, subresource="status")


async def _edit_job(client: KubeClient, change: dict[str, Any], after: float) -> None:
    await asyncio.sleep(after)
    await client.patch(JOBS, "default", "demo", change)


async def _tell(client: KubeClient, node: str, condition: dict[str, str], after: float) -> None:
    await asyncio.sleep(after)
    told = {**condition, "lastTransitionTime": format_timestamp(VirtualClock().now())}
    await client.patch(NODES, None, node, {"status": {"conditions": [told]}}, subresource="status")
