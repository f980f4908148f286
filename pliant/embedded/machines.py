"""The virtual nodes of this machine, as the API shows them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pliant import __version__
from pliant.embedded.chaos import GPU_FAULT, OUTAGE
from pliant.embedded.server.lifecycle import timestamp
from pliant.errors import AlreadyExists
from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport import STRATEGIC_PATCH

GPU = "nvidia.com/gpu"
_RUNTIME = "pliant://"
"""What the nodes of an embedded cluster say they run pods with."""
_MOST_PODS = 1000
"""A bridge has 1,023 ports."""


def capacity(*, cpu: int | None, memory: str | None, gpu: int) -> dict[str, str]:
    """What each node has to give: what was asked for, else what the machine has."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    has = {
        "cpu": str(cpu or os.cpu_count() or 1),
        "memory": memory or f"{page * pages // 1024}Ki",
        "pods": str(_MOST_PODS),
        "ephemeral-storage": "1Ti",
    }
    return {**has, GPU: str(gpu)} if gpu else has


async def register(
    client: KubeClient, nodes: Mapping[str, Mapping[str, str]], address: str, now: datetime
) -> None:
    """Make the machine's nodes exactly these, ready; pods of nodes that are no more go with them.

    Nodes that somebody else made stay, and so do the conditions and marks that others put on ours.
    """
    known = {node["metadata"]["name"] for node in (await client.list(NODES)).items if _is_ours(node)}
    for name in sorted(known - nodes.keys()):
        await client.delete(NODES, None, name)
        for pod in (await client.list(PODS, fields=f"spec.nodeName={name}")).items:
            await client.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace=0)
    for name, has in nodes.items():
        await present(client, name, has, address, now)


async def present(client: KubeClient, name: str, has: Mapping[str, str], address: str, now: datetime) -> None:
    """Show one node, ready, whether it is there already or not; no outage lasts beyond that."""
    try:
        await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": _metadata(name)})
    except AlreadyExists:
        over = {"annotations": {OUTAGE: None, GPU_FAULT: None}}
        await client.patch(NODES, None, name, {"metadata": {**_metadata(name), **over}})
    status = _status(name, has, address, timestamp(now))
    # What merges by type leaves alone what others say of a node.
    patch = {"status": status}
    await client.patch(NODES, None, name, patch, content_type=STRATEGIC_PATCH, subresource="status")


def readiness(now: str, *, is_here: bool) -> dict[str, Any]:
    """The condition that tells whether anybody hears from a node."""
    words = (
        {"status": "True", "reason": "KubeletReady", "message": "pods run as processes of this machine"}
        if is_here
        else {
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
    )
    return {"type": "Ready", **words, "lastHeartbeatTime": now, "lastTransitionTime": now}


def _is_ours(node: Mapping[str, Any]) -> bool:
    about = (node.get("status") or {}).get("nodeInfo") or {}
    return str(about.get("containerRuntimeVersion", "")).startswith(_RUNTIME)


def _metadata(name: str) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
    }
    return {"name": name, "labels": labels}


def _status(name: str, has: Mapping[str, str], address: str, now: str) -> dict[str, Any]:
    return {
        "capacity": dict(has),
        "allocatable": dict(has),
        "conditions": [readiness(now, is_here=True)],
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": _architecture(),
            "bootID": "",
            "containerRuntimeVersion": f"{_RUNTIME}{__version__}",
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
