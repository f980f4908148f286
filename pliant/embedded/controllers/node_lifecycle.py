"""The node lifecycle controller: registers nodes, sets their Ready condition and simulates node outages."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from pliant import __version__
from pliant.embedded.fault_annotations import (
    GPU_FAULT_ANNOTATION,
    NODE_OUTAGE_ANNOTATION,
    OUTAGE_VALUE_KILLED,
    OUTAGE_VALUE_PAUSED,
)
from pliant.embedded.kubelet.kubelet import Kubelet
from pliant.embedded.kubelet.pods.context import KubeletDependencies
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, patch_status, retry_until_answered
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE
from pliant.errors import AlreadyExists
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

_RUNTIME_PREFIX = "pliant://"
"""Prefix of `containerRuntimeVersion` by which nodes of an embedded cluster are recognized."""
_MAX_PODS_PER_NODE = 1000
"""A Linux bridge has 1,023 ports."""
HEARTBEAT_INTERVAL_SECONDS = 2.0
NODE_OUTAGE_TIMEOUT_SECONDS = 4.0
"""Seconds after which a node is not ready whose agent has died, or whose outage is simulated."""
NODE_HEARTBEAT_TIMEOUT_SECONDS = 40.0
"""Seconds after which a node is not ready whose agent lives but does not respond; its pods run all the same."""
MAX_MONITOR_DELAY_SECONDS = 6.0
"""A check of the heartbeats that comes later than this finds them old because the monitor itself was stopped."""
_NO_ANNOTATIONS: Mapping[str, str] = {}

log = logging.getLogger(__name__)


class NodeLifecycleController:
    """A node has a heartbeat while the agent responds and no outage of the node is simulated.

    Heartbeats are not written to the API; only changes of the Ready condition are.
    """

    def __init__(
        self,
        services: KubeletDependencies,
        kubelet: Kubelet,
        node_capacities: Mapping[str, Mapping[str, str]],
        list_pods: Callable[[], Iterable[PodView]],
    ) -> None:
        self._services = services
        self._kubelet = kubelet
        self._node_capacities = node_capacities
        self._list_pods = list_pods
        self._last_heartbeats: dict[str, float] = {}
        self._is_reachable = dict.fromkeys(node_capacities, True)
        self._simulated_outages: dict[str, str] = {}
        self._changed: asyncio.Queue[Node] = asyncio.Queue()
        self._woken = asyncio.Event()
        self._has_agent = asyncio.Event()
        self._has_agent.set()
        self.on_heartbeat: Callable[[], None] = lambda: None
        """Called every HEARTBEAT_INTERVAL_SECONDS or more often."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._monitor_heartbeats())
            tasks.create_task(self._apply_fault_annotations())

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is not None and new.metadata.name in self._node_capacities:
            self._changed.put_nowait(new)

    def on_agent_lost(self) -> None:
        """Kill the pods of every node in the kubelet: all processes died with the agent."""
        self._has_agent.clear()
        for name in self._node_capacities:
            self._kubelet.simulate_node_crash(name)

    async def on_agent_restarted(self) -> None:
        """Restart the pods of every node, as after a reboot."""
        if self._services.agent.is_lost:
            return  # the new agent is lost, too
        self._has_agent.set()
        for name in self._node_capacities.keys() - self._simulated_outages.keys():
            await self._kubelet.recover_node(name, self._list_pods)
        self._woken.set()

    async def _monitor_heartbeats(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_heartbeats = dict.fromkeys(self._node_capacities, checked_at := loop.time())
        while True:
            is_responsive = await self._services.agent.is_responsive(HEARTBEAT_INTERVAL_SECONDS)
            self.on_heartbeat()
            self._excuse_own_delay(loop.time() - checked_at)
            checked_at = loop.time()
            if is_responsive:
                alive = self._node_capacities.keys() - self._simulated_outages.keys()
                self._last_heartbeats |= dict.fromkeys(alive, checked_at)
            for name, last in self._last_heartbeats.items():
                is_reachable = checked_at - last < self._heartbeat_timeout(name)
                if is_reachable != self._is_reachable[name]:
                    self._is_reachable[name] = is_reachable
                    await self._write_ready_condition(name, is_reachable=is_reachable)
                    await self._sync_pod_readiness(name, is_reachable=is_reachable)
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_INTERVAL_SECONDS):
                    await self._woken.wait()
            self._woken.clear()

    def _heartbeat_timeout(self, node_name: str) -> float:
        is_down = self._services.agent.is_lost or node_name in self._simulated_outages
        return NODE_OUTAGE_TIMEOUT_SECONDS if is_down else NODE_HEARTBEAT_TIMEOUT_SECONDS

    def _excuse_own_delay(self, seconds_since_check: float) -> None:
        """Do not count time against the nodes in which nobody could receive their heartbeats."""
        delay = seconds_since_check - MAX_MONITOR_DELAY_SECONDS
        if delay > 0:
            self._last_heartbeats = {name: last + delay for name, last in self._last_heartbeats.items()}

    async def _apply_fault_annotations(self) -> None:
        while True:
            node = await self._changed.get()
            name = node.metadata.name
            outage = node.metadata.annotations.get(NODE_OUTAGE_ANNOTATION, "")
            if outage in (OUTAGE_VALUE_KILLED, OUTAGE_VALUE_PAUSED):
                self._inject_outage(name, outage)
            elif name in self._simulated_outages:
                await self._recover_node(name)
            if not node.status.capacity:
                # A user deleted the node and created it again; only this controller knows its capacity.
                await self._reregister_node(name)

    def _inject_outage(self, node_name: str, outage: str) -> None:
        if self._simulated_outages.get(node_name) in (outage, OUTAGE_VALUE_KILLED):
            return
        self._simulated_outages[node_name] = outage
        log.warning("node outage injected", extra={"node": node_name, "outage": outage})
        (self._kubelet.simulate_node_crash if outage == OUTAGE_VALUE_KILLED else self._kubelet.simulate_node_partition)(
            node_name
        )

    async def _recover_node(self, node_name: str) -> None:
        await self._has_agent.wait()
        await self._kubelet.recover_node(node_name, self._list_pods)
        del self._simulated_outages[node_name]
        log.warning("node recovered", extra={"node": node_name})
        self._woken.set()

    async def _reregister_node(self, node_name: str) -> None:
        services, capacity = self._services, self._node_capacities[node_name]
        register = partial(register_ready_node, services.client, node_name, capacity, services.agent.gateway_address)
        try:
            await retry_until_answered(partial(register, services.clock.now(), services.filesystem.node_annotations))
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("node not registered", extra={"node": node_name, "error": str(error)})

    async def _sync_pod_readiness(self, node_name: str, *, is_reachable: bool) -> None:
        """Mark the pods of an unreachable node not ready, so that services do not route to them."""
        if is_reachable:
            self._kubelet.republish_statuses(node_name)
            return
        now = format_timestamp(self._services.clock.now())
        condition = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        for pod in [each for each in self._list_pods() if each.spec.node_name == node_name and each.is_ready]:
            try:
                await patch_status(self._services.client, PODS, pod.metadata, {"conditions": [condition]})
            except NON_RETRYABLE_API_ERRORS:
                continue  # the pod is deleted
            await self._services.events.emit_warning(pod.metadata, "NodeNotReady", "Node is not ready")

    async def _write_ready_condition(self, node_name: str, *, is_reachable: bool) -> None:
        condition = ready_condition(format_timestamp(self._services.clock.now()), is_reachable=is_reachable)
        patch = {"status": {"conditions": [condition]}}
        write = partial(self._services.client.patch, NODES, None, node_name, patch, content_type=STRATEGIC_MERGE_PATCH)
        log.warning("node reachable" if is_reachable else "node not reachable", extra={"node": node_name})
        try:
            await retry_until_answered(partial(write, subresource="status"))
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("node status not written", extra={"node": node_name, "error": str(error)})


def resolve_node_capacity(*, cpu: int | None, memory: str | None, gpu: int) -> dict[str, str]:
    """Return the capacity of each node: the arguments, or the resources of the machine by default."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    capacity = {
        "cpu": str(cpu or os.cpu_count() or 1),
        "memory": memory or f"{page * pages // 1024}Ki",
        "pods": str(_MAX_PODS_PER_NODE),
        "ephemeral-storage": "1Ti",
    }
    return {**capacity, GPU_RESOURCE: str(gpu)} if gpu else capacity


async def replace_registered_nodes(
    client: KubeClient,
    node_capacities: Mapping[str, Mapping[str, str]],
    node_address: str,
    now: datetime,
    annotations: Mapping[str, str] = _NO_ANNOTATIONS,
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
        await register_ready_node(client, name, capacity, node_address, now, annotations)


async def register_ready_node(
    client: KubeClient,
    name: str,
    capacity: Mapping[str, str],
    node_address: str,
    now: datetime,
    annotations: Mapping[str, str],
) -> None:
    """Create or update one node with status Ready, and end its simulated faults."""
    metadata = {**_node_metadata(name), "annotations": dict(annotations)}
    try:
        await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    except AlreadyExists:
        cleared = {**annotations, NODE_OUTAGE_ANNOTATION: None, GPU_FAULT_ANNOTATION: None}
        await client.patch(NODES, None, name, {"metadata": {**metadata, "annotations": cleared}})
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
