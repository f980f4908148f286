"""Registers the virtual nodes of the embedded cluster in the API."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pliant import __version__
from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.fault_annotations import GPU_FAULT_ANNOTATION, NODE_OUTAGE_ANNOTATION
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE
from pliant.errors import AlreadyExists
from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

_RUNTIME_PREFIX = "pliant://"
"""Prefix of `containerRuntimeVersion` by which nodes of an embedded cluster are recognized."""
_MAX_PODS_PER_NODE = 1000
"""A Linux bridge has 1,023 ports."""


def node_capacity(*, cpu: int | None, memory: str | None, gpu: int) -> dict[str, str]:
    """Return the capacity of each node: the arguments, or the resources of the machine by default."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    capacity = {
        "cpu": str(cpu or os.cpu_count() or 1),
        "memory": memory or f"{page * pages // 1024}Ki",
        "pods": str(_MAX_PODS_PER_NODE),
        "ephemeral-storage": "1Ti",
    }
    return {**capacity, GPU_RESOURCE: str(gpu)} if gpu else capacity


async def register_nodes(
    client: KubeClient, node_capacities: Mapping[str, Mapping[str, str]], node_address: str, now: datetime
) -> None:
    """Create or update the nodes; delete nodes of an earlier run that are not listed, with their pods.

    Nodes that users created stay, and so do conditions and taints that other components set on these nodes.
    """
    existing = {node["metadata"]["name"] for node in (await client.list(NODES)).items if _is_embedded_node(node)}
    for name in sorted(existing - node_capacities.keys()):
        await client.delete(NODES, None, name)
        for pod in (await client.list(PODS, fields=f"spec.nodeName={name}")).items:
            await client.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace_period_seconds=0)
    for name, capacity in node_capacities.items():
        await register_node(client, name, capacity, node_address, now)


async def register_node(
    client: KubeClient, name: str, capacity: Mapping[str, str], node_address: str, now: datetime
) -> None:
    """Create or update one node with status Ready, and end its simulated faults."""
    try:
        await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": _node_metadata(name)})
    except AlreadyExists:
        cleared = {"annotations": {NODE_OUTAGE_ANNOTATION: None, GPU_FAULT_ANNOTATION: None}}
        await client.patch(NODES, None, name, {"metadata": {**_node_metadata(name), **cleared}})
    status = _node_status(name, capacity, node_address, format_timestamp(now))
    # A strategic merge keeps the conditions that other components set.
    patch = {"status": status}
    await client.patch(NODES, None, name, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")


def ready_condition(now: str, *, is_reachable: bool) -> dict[str, Any]:
    state = (
        {"status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
        if is_reachable
        else {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    )
    return {"type": "Ready", **state, "lastHeartbeatTime": now, "lastTransitionTime": now}


def _is_embedded_node(node: Mapping[str, Any]) -> bool:
    node_info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(node_info.get("containerRuntimeVersion", "")).startswith(_RUNTIME_PREFIX)


def _node_metadata(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": _architecture()}
    return {"name": name, "labels": labels}


def _node_status(name: str, capacity: Mapping[str, str], node_address: str, now: str) -> dict[str, Any]:
    return {
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
        "conditions": [ready_condition(now, is_reachable=True)],
        "addresses": [{"type": "InternalIP", "address": node_address}, {"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": _architecture(),
            "bootID": "",
            "containerRuntimeVersion": f"{_RUNTIME_PREFIX}{__version__}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": f"pliant-{__version__}",
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": platform.platform(terse=True),
            "systemUUID": "",
        },
    }


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
