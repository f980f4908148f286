"""The node lifecycle controller: sets the Ready condition of nodes, and simulates node outages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.controllers.node_registration import ready_condition, register_node
from pliant.embedded.fault_annotations import NODE_OUTAGE_ANNOTATION, OUTAGE_KILLED, OUTAGE_PAUSED
from pliant.embedded.kubelet.kubelet import Kubelet
from pliant.embedded.kubelet.pods.context import KubeletDependencies
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import REJECTION_ERRORS, patch_status, with_retries
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

HEARTBEAT_INTERVAL = 2.0
"""In seconds."""
NODE_MONITOR_GRACE_PERIOD = 4.0
"""Seconds without a heartbeat after which a node is not ready."""

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
        self._outages: dict[str, str] = {}
        """Simulated outages, by node: killed or paused."""
        self._changed: asyncio.Queue[Node] = asyncio.Queue()
        self._woken = asyncio.Event()
        self._has_agent = asyncio.Event()
        self._has_agent.set()

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
            self._kubelet.kill_node(name)

    async def on_agent_restarted(self) -> None:
        """Restart the pods of every node, as after a reboot."""
        if self._services.agent.is_lost:
            return  # the new agent is lost, too
        self._has_agent.set()
        for name in self._node_capacities.keys() - self._outages.keys():
            await self._kubelet.recover_node(name, self._list_pods)
        self._woken.set()

    async def _monitor_heartbeats(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_heartbeats = dict.fromkeys(self._node_capacities, loop.time())
        while True:
            if await self._services.agent.is_responsive(HEARTBEAT_INTERVAL):
                self._last_heartbeats |= dict.fromkeys(self._node_capacities.keys() - self._outages.keys(), loop.time())
            for name, last in self._last_heartbeats.items():
                is_reachable = loop.time() - last < NODE_MONITOR_GRACE_PERIOD
                if is_reachable != self._is_reachable[name]:
                    self._is_reachable[name] = is_reachable
                    await self._write_ready_condition(name, is_reachable=is_reachable)
                    await self._sync_pod_readiness(name, is_reachable=is_reachable)
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_INTERVAL):
                    await self._woken.wait()
            self._woken.clear()

    async def _apply_fault_annotations(self) -> None:
        while True:
            node = await self._changed.get()
            name = node.metadata.name
            outage = node.metadata.annotations.get(NODE_OUTAGE_ANNOTATION, "")
            if outage in (OUTAGE_KILLED, OUTAGE_PAUSED):
                self._inject_outage(name, outage)
            elif name in self._outages:
                await self._recover_node(name)
            if not node.status.capacity:
                # A user deleted the node and created it again; only this controller knows its capacity.
                await self._reregister_node(name)

    def _inject_outage(self, node_name: str, outage: str) -> None:
        if self._outages.get(node_name) in (outage, OUTAGE_KILLED):
            return
        self._outages[node_name] = outage
        log.warning("node outage injected", extra={"node": node_name, "outage": outage})
        (self._kubelet.kill_node if outage == OUTAGE_KILLED else self._kubelet.pause_node)(node_name)

    async def _recover_node(self, node_name: str) -> None:
        await self._has_agent.wait()
        await self._kubelet.recover_node(node_name, self._list_pods)
        del self._outages[node_name]
        log.warning("node recovered", extra={"node": node_name})
        self._woken.set()

    async def _reregister_node(self, node_name: str) -> None:
        services, capacity = self._services, self._node_capacities[node_name]
        register = partial(register_node, services.client, node_name, capacity, services.agent.address)
        try:
            await with_retries(partial(register, services.clock.now()))
        except REJECTION_ERRORS as error:
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
            except REJECTION_ERRORS:
                continue  # the pod is deleted
            await self._services.events.emit_warning(pod.metadata, "NodeNotReady", "Node is not ready")

    async def _write_ready_condition(self, node_name: str, *, is_reachable: bool) -> None:
        condition = ready_condition(format_timestamp(self._services.clock.now()), is_reachable=is_reachable)
        patch = {"status": {"conditions": [condition]}}
        write = partial(self._services.client.patch, NODES, None, node_name, patch, content_type=STRATEGIC_MERGE_PATCH)
        log.warning("node reachable" if is_reachable else "node not reachable", extra={"node": node_name})
        try:
            await with_retries(partial(write, subresource="status"))
        except REJECTION_ERRORS as error:
            log.info("node status not written", extra={"node": node_name, "error": str(error)})
