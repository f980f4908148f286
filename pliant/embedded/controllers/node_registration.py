"""The virtual nodes of this machine, as the API shows them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pliant import __version__
from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.fault_annotations import GPU_FAULT_ANNOTATION, NODE_OUTAGE_ANNOTATION
from pliant.errors import AlreadyExists
from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

GPU_RESOURCE = "nvidia.com/gpu"
_RUNTIME_PREFIX = "pliant://"
"""What the nodes of an embedded cluster say they run pods with."""
_MAX_PODS_PER_NODE = 1000
"""A bridge has 1,023 ports."""


def node_capacity(*, cpu: int | None, memory: str | None, gpu: int) -> dict[str, str]:
    """What each node has to give: what was asked for, else what the machine has."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    has = {
        "cpu": str(cpu or os.cpu_count() or 1),
        "memory": memory or f"{page * pages // 1024}Ki",
        "pods": str(_MAX_PODS_PER_NODE),
        "ephemeral-storage": "1Ti",
    }
    return {**has, GPU_RESOURCE: str(gpu)} if gpu else has


async def register_nodes(
    client: KubeClient, node_capacities: Mapping[str, Mapping[str, str]], node_address: str, now: datetime
) -> None:
    """Make the machine's nodes exactly these, ready; pods of nodes that are no more go with them.

    Nodes that somebody else made stay, and so do the conditions and marks that others put on ours.
    """
    known = {node["metadata"]["name"] for node in (await client.list(NODES)).items if _is_embedded_node(node)}
    for name in sorted(known - node_capacities.keys()):
        await client.delete(NODES, None, name)
        for pod in (await client.list(PODS, fields=f"spec.nodeName={name}")).items:
            await client.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace_period_seconds=0)
    for name, has in node_capacities.items():
        await register_node(client, name, has, node_address, now)


async def register_node(
    client: KubeClient, name: str, capacity: Mapping[str, str], node_address: str, now: datetime
) -> None:
    """Show one node, ready, whether it is there already or not; no outage lasts beyond that."""
    try:
        await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": _node_metadata(name)})
    except AlreadyExists:
        over = {"annotations": {NODE_OUTAGE_ANNOTATION: None, GPU_FAULT_ANNOTATION: None}}
        await client.patch(NODES, None, name, {"metadata": {**_node_metadata(name), **over}})
    status = _node_status(name, capacity, node_address, format_timestamp(now))
    # What merges by type leaves alone what others say of a node.
    patch = {"status": status}
    await client.patch(NODES, None, name, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")


def ready_condition(now: str, *, is_reachable: bool) -> dict[str, Any]:
    """The condition that tells whether anybody hears from a node."""
    words = (
        {"status": "True", "reason": "KubeletReady", "message": "pods run as processes of this machine"}
        if is_reachable
        else {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    )
    return {"type": "Ready", **words, "lastHeartbeatTime": now, "lastTransitionTime": now}


def _is_embedded_node(node: Mapping[str, Any]) -> bool:
    about = (node.get("status") or {}).get("nodeInfo") or {}
    return str(about.get("containerRuntimeVersion", "")).startswith(_RUNTIME_PREFIX)


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
