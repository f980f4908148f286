"""Takes away the pods of nodes that are no more, as Kubernetes' pod garbage collector does."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial

from pliant.embedded.controllers.taint_eviction import disruption_condition
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import REJECTION_ERRORS, with_retries
from pliant.errors import NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import Clock

NODE_QUARANTINE_SECONDS = 40.0
"""Seconds for a node to come back before its pods are given up."""
_DISRUPTION_REASON = ("DeletionByPodGC", "PodGC: node no longer exists")

log = logging.getLogger(__name__)


class PodGarbageCollector:
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
            await self._delete_pods_of_missing_node(await self._due.get())

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None:
            self._nodes.add(new.metadata.name)
            self._cancel_quarantine(new.metadata.name)
        elif old is not None:
            self._nodes.discard(old.metadata.name)
            self._start_quarantine(old.metadata.name)

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            left = self._pods[old.spec.node_name]
            left.pop(old.metadata.uid, None)
            if not left:
                self._cancel_quarantine(old.spec.node_name)
        if new is not None and new.spec.node_name:
            self._pods[new.spec.node_name][new.metadata.uid] = new
            self._start_quarantine(new.spec.node_name)

    def _start_quarantine(self, node: str) -> None:
        """Begin to wait for a node that pods say they are on."""
        if node not in self._nodes and node not in self._timers and self._pods[node]:
            loop = asyncio.get_running_loop()
            self._timers[node] = loop.call_later(NODE_QUARANTINE_SECONDS, self._due.put_nowait, node)

    def _cancel_quarantine(self, node: str) -> None:
        timer = self._timers.pop(node, None)
        if timer is not None:
            timer.cancel()

    async def _delete_pods_of_missing_node(self, node: str) -> None:
        self._cancel_quarantine(node)
        try:
            await with_retries(partial(self._client.get, NODES, None, node))
        except NotFound:
            for pod in list(self._pods[node].values()):
                await self._force_delete_pod(pod, node)
        self._start_quarantine(node)

    async def _force_delete_pod(self, pod: PodView, node: str) -> None:
        """Say that a pod has failed, if it was not over, and delete it: nobody is there to see it off."""
        meta = pod.metadata
        where = PODS, meta.namespace, meta.name
        status = {"phase": "Failed", "conditions": [disruption_condition(*_DISRUPTION_REASON, self._clock.now())]}
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        explain = partial(self._client.patch, *where, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")
        log.warning("pod of no node is deleted", extra={"pod": f"{meta.namespace}/{meta.name}", "node": node})
        try:
            if not pod.is_finished:
                await with_retries(explain)
            await with_retries(partial(self._client.delete, *where, uid=meta.uid, grace_period_seconds=0))
        except REJECTION_ERRORS as refusal:
            log.info("pod not deleted", extra={"pod": f"{meta.namespace}/{meta.name}", "because": str(refusal)})
