"""Knows which nodes are there, says so, and lets them fail when people want to see that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from pliant.embedded.chaos import KILLED, OUTAGE, PAUSED
from pliant.embedded.machines import present, readiness
from pliant.embedded.node.kubelet import Kubelet
from pliant.embedded.node.podscope import NodeServices
from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodView
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport import STRATEGIC_PATCH

BEAT = 2.0
"""Seconds between two signs of life."""
GRACE = 4.0
"""Seconds without one after which a node counts as lost."""

log = logging.getLogger(__name__)


class Heartbeats:
    """Every node beats while the agent answers and nobody has struck it; one that does not is not ready.

    Signs of life are not written anywhere: only what follows from them is, when it changes.
    """

    def __init__(
        self,
        services: NodeServices,
        kubelet: Kubelet,
        nodes: Mapping[str, Mapping[str, str]],
        pods: Callable[[], Iterable[PodView]],
    ) -> None:
        self._services = services
        self._kubelet = kubelet
        self._nodes = nodes
        self._pods = pods
        self._beats: dict[str, float] = {}
        """When each node was last heard of."""
        self._is_here = dict.fromkeys(nodes, True)
        self._struck: dict[str, str] = {}
        """Nodes that are out, and how."""
        self._changed: asyncio.Queue[Node] = asyncio.Queue()
        self._woken = asyncio.Event()
        self._has_agent = asyncio.Event()
        self._has_agent.set()

    async def run(self) -> None:
        """Listen and obey until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._obey())

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None and new.metadata.name in self._nodes:
            self._changed.put_nowait(new)

    def agent_lost(self) -> None:
        """Every process of every node has died with the agent; nobody hears of nodes until another is there."""
        self._has_agent.clear()
        for name in self._nodes:
            self._kubelet.kill(name)

    async def agent_is_back(self) -> None:
        """Go on where the agent died, as nodes do that were switched off and on again."""
        if self._services.agent.is_lost:
            return  # again
        self._has_agent.set()
        for name in self._nodes.keys() - self._struck.keys():
            await self._kubelet.wake(name, self._pods)
        self._woken.set()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._beats = dict.fromkeys(self._nodes, loop.time())
        while True:
            if await self._services.agent.is_heard(BEAT):
                self._beats |= dict.fromkeys(self._nodes.keys() - self._struck.keys(), loop.time())
            for name, last in self._beats.items():
                is_here = loop.time() - last < GRACE
                if is_here != self._is_here[name]:
                    self._is_here[name] = is_here
                    await self._tell(name, is_here=is_here)
                    await self._speak_for_pods(name, is_here=is_here)
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(BEAT):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()

    async def _obey(self) -> None:
        """Let nodes fail and come back as their annotations say."""
        while True:
            node = await self._changed.get()
            name = node.metadata.name
            wanted = node.metadata.annotations.get(OUTAGE, "")
            if wanted in (KILLED, PAUSED):
                self._strike(name, wanted)
            elif name in self._struck:
                await self._heal(name)
            if not node.status.capacity:
                # Somebody deleted the node and made it again, but only we know what it has.
                await self._show(name)

    def _strike(self, name: str, how: str) -> None:
        before = self._struck.get(name)
        if before in (how, KILLED):
            return
        self._struck[name] = how
        log.warning("node struck", extra={"node": name, "how": how})
        (self._kubelet.kill if how == KILLED else self._kubelet.pause)(name)

    async def _heal(self, name: str) -> None:
        await self._has_agent.wait()
        await self._kubelet.wake(name, self._pods)
        del self._struck[name]
        log.warning("node healed", extra={"node": name})
        self._woken.set()

    async def _show(self, name: str) -> None:
        services = self._services
        show = partial(present, services.client, name, self._nodes[name], services.agent.address)
        try:
            await patiently(partial(show, services.clock.now()))
        except TURNED_DOWN as refusal:
            log.info("node not shown", extra={"node": name, "because": str(refusal)})

    async def _speak_for_pods(self, name: str, *, is_here: bool) -> None:
        """Tell that the pods of a lost node are not ready, so that nobody is led to them, until it is back."""
        if is_here:
            self._kubelet.repeat(name)
            return
        now = timestamp(self._services.clock.now())
        condition = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        for pod in [each for each in self._pods() if each.spec.node_name == name and each.is_ready]:
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
            write = partial(self._services.client.patch, PODS, meta.namespace, meta.name, patch)
            try:
                await patiently(partial(write, content_type=STRATEGIC_PATCH, subresource="status"))
            except TURNED_DOWN:
                continue  # it is gone
            await self._services.events.warn(meta, "NodeNotReady", "Node is not ready")

    async def _tell(self, name: str, *, is_here: bool) -> None:
        condition = readiness(timestamp(self._services.clock.now()), is_here=is_here)
        patch = {"status": {"conditions": [condition]}}
        write = partial(self._services.client.patch, NODES, None, name, patch, content_type=STRATEGIC_PATCH)
        log.warning("node is back" if is_here else "node is lost", extra={"node": name})
        try:
            await patiently(partial(write, subresource="status"))
        except TURNED_DOWN as refusal:
            log.info("node not told", extra={"node": name, "because": str(refusal)})
