"""Knows which nodes are there, says so, and lets them fail when people want to see that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.controllers.node_registration import ready_condition, register_node
from pliant.embedded.fault_annotations import NODE_OUTAGE_ANNOTATION, OUTAGE_KILLED, OUTAGE_PAUSED
from pliant.embedded.kubelet.kubelet import Kubelet
from pliant.embedded.kubelet.pods.context import KubeletDependencies
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import REJECTION_ERRORS, with_retries
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

HEARTBEAT_INTERVAL = 2.0
"""Seconds between two signs of life."""
NODE_MONITOR_GRACE_PERIOD = 4.0
"""Seconds without one after which a node counts as lost."""

log = logging.getLogger(__name__)


class NodeLifecycleController:
    """Every node beats while the agent answers and nobody has struck it; one that does not is not ready.

    Signs of life are not written anywhere: only what follows from them is, when it changes.
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
        """When each node was last heard of."""
        self._is_reachable = dict.fromkeys(node_capacities, True)
        self._outages: dict[str, str] = {}
        """Nodes that are out, and how."""
        self._changed: asyncio.Queue[Node] = asyncio.Queue()
        self._woken = asyncio.Event()
        self._has_agent = asyncio.Event()
        self._has_agent.set()

    async def run(self) -> None:
        """Listen and obey until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._monitor_heartbeats())
            tasks.create_task(self._apply_fault_annotations())

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None and new.metadata.name in self._node_capacities:
            self._changed.put_nowait(new)

    def on_agent_lost(self) -> None:
        """Every process of every node has died with the agent; nobody hears of nodes until another is there."""
        self._has_agent.clear()
        for name in self._node_capacities:
            self._kubelet.kill_node(name)

    async def on_agent_restarted(self) -> None:
        """Go on where the agent died, as nodes do that were switched off and on again."""
        if self._services.agent.is_lost:
            return  # again
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
                is_here = loop.time() - last < NODE_MONITOR_GRACE_PERIOD
                if is_here != self._is_reachable[name]:
                    self._is_reachable[name] = is_here
                    await self._write_ready_condition(name, is_reachable=is_here)
                    await self._sync_pod_readiness(name, is_reachable=is_here)
            await self._wait_for_next_check()

    async def _wait_for_next_check(self) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_INTERVAL):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()

    async def _apply_fault_annotations(self) -> None:
        """Let nodes fail and come back as their annotations say."""
        while True:
            node = await self._changed.get()
            name = node.metadata.name
            wanted = node.metadata.annotations.get(NODE_OUTAGE_ANNOTATION, "")
            if wanted in (OUTAGE_KILLED, OUTAGE_PAUSED):
                self._inject_outage(name, wanted)
            elif name in self._outages:
                await self._recover_node(name)
            if not node.status.capacity:
                # Somebody deleted the node and made it again, but only we know what it has.
                await self._reregister_node(name)

    def _inject_outage(self, node_name: str, outage: str) -> None:
        before = self._outages.get(node_name)
        if before in (outage, OUTAGE_KILLED):
            return
        self._outages[node_name] = outage
        log.warning("node struck", extra={"node": node_name, "how": outage})
        (self._kubelet.kill_node if outage == OUTAGE_KILLED else self._kubelet.pause_node)(node_name)

    async def _recover_node(self, node_name: str) -> None:
        await self._has_agent.wait()
        await self._kubelet.recover_node(node_name, self._list_pods)
        del self._outages[node_name]
        log.warning("node healed", extra={"node": node_name})
        self._woken.set()

    async def _reregister_node(self, node_name: str) -> None:
        services = self._services
        show = partial(
            register_node, services.client, node_name, self._node_capacities[node_name], services.agent.address
        )
        try:
            await with_retries(partial(show, services.clock.now()))
        except REJECTION_ERRORS as refusal:
            log.info("node not shown", extra={"node": node_name, "because": str(refusal)})

    async def _sync_pod_readiness(self, node_name: str, *, is_reachable: bool) -> None:
        """Tell that the pods of a lost node are not ready, so that nobody is led to them, until it is back."""
        if is_reachable:
            self._kubelet.republish_statuses(node_name)
            return
        now = format_timestamp(self._services.clock.now())
        condition = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        for pod in [each for each in self._list_pods() if each.spec.node_name == node_name and each.is_ready]:
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
            write = partial(self._services.client.patch, PODS, meta.namespace, meta.name, patch)
            try:
                await with_retries(partial(write, content_type=STRATEGIC_MERGE_PATCH, subresource="status"))
            except REJECTION_ERRORS:
                continue  # it is gone
            await self._services.events.emit_warning(meta, "NodeNotReady", "Node is not ready")

    async def _write_ready_condition(self, node_name: str, *, is_reachable: bool) -> None:
        condition = ready_condition(format_timestamp(self._services.clock.now()), is_reachable=is_reachable)
        patch = {"status": {"conditions": [condition]}}
        write = partial(self._services.client.patch, NODES, None, node_name, patch, content_type=STRATEGIC_MERGE_PATCH)
        log.warning("node is back" if is_reachable else "node is lost", extra={"node": node_name})
        try:
            await with_retries(partial(write, subresource="status"))
        except REJECTION_ERRORS as refusal:
            log.info("node not told", extra={"node": node_name, "because": str(refusal)})
