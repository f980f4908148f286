"""Takes away the pods of nodes that are no more, as Kubernetes' pod garbage collector does."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial

from pliant.embedded.evictions import disruption
from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.views import PodView
from pliant.errors import NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport import STRATEGIC_PATCH
from pliant.runtime.clock import Clock

QUARANTINE = 40.0
"""Seconds for a node to come back before its pods are given up."""
_BECAUSE = ("DeletionByPodGC", "PodGC: node no longer exists")

log = logging.getLogger(__name__)


class Orphans:
    """Deletes pods by force once there has been no node of theirs for a while: nobody else would ever do it."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._nodes: set[str] = set()
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        """Those on each node, by uid."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """For each node that pods name and nobody knows."""
        self._due: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Delete pods until cancelled."""
        while True:
            await self._clear(await self._due.get())

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None:
            self._nodes.add(new.metadata.name)
            self._forgive(new.metadata.name)
        elif old is not None:
            self._nodes.discard(old.metadata.name)
            self._miss(old.metadata.name)

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            left = self._pods[old.spec.node_name]
            left.pop(old.metadata.uid, None)
            if not left:
                self._forgive(old.spec.node_name)
        if new is not None and new.spec.node_name:
            self._pods[new.spec.node_name][new.metadata.uid] = new
            self._miss(new.spec.node_name)

    def _miss(self, node: str) -> None:
        """Begin to wait for a node that pods say they are on."""
        if node not in self._nodes and node not in self._timers and self._pods[node]:
            loop = asyncio.get_running_loop()
            self._timers[node] = loop.call_later(QUARANTINE, self._due.put_nowait, node)

    def _forgive(self, node: str) -> None:
        timer = self._timers.pop(node, None)
        if timer is not None:
            timer.cancel()

    async def _clear(self, node: str) -> None:
        self._forgive(node)
        try:
            await patiently(partial(self._client.get, NODES, None, node))
        except NotFound:
            for pod in list(self._pods[node].values()):
                await self._give_up(pod, node)
        self._miss(node)

    async def _give_up(self, pod: PodView, node: str) -> None:
        """Say that a pod has failed, if it was not over, and delete it: nobody is there to see it off."""
        meta = pod.metadata
        where = PODS, meta.namespace, meta.name
        status = {"phase": "Failed", "conditions": [disruption(*_BECAUSE, self._clock.now())]}
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        explain = partial(self._client.patch, *where, patch, content_type=STRATEGIC_PATCH, subresource="status")
        log.warning("pod of no node is deleted", extra={"pod": f"{meta.namespace}/{meta.name}", "node": node})
        try:
            if not pod.is_finished:
                await patiently(explain)
            await patiently(partial(self._client.delete, *where, uid=meta.uid, grace=0))
        except TURNED_DOWN as refusal:
            log.info("pod not deleted", extra={"pod": f"{meta.namespace}/{meta.name}", "because": str(refusal)})
