"""The pod garbage collector: deletes pods whose node no longer exists."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial

from pliant.embedded.controllers.taints import disruption_condition
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, patch_status, retry_until_answered
from pliant.errors import NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.runtime.clock import Clock

MISSING_NODE_GRACE_SECONDS = 40.0
"""Seconds for a missing node to reappear before its pods are deleted."""
_DISRUPTION_REASON = ("DeletionByPodGC", "PodGC: node no longer exists")

log = logging.getLogger(__name__)


class PodGarbageCollector:
    """Force-deletes the pods of a node that has been missing for the quarantine period."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._nodes: set[str] = set()
        self._pods_by_node: dict[str, dict[str, PodView]] = defaultdict(dict)
        self._quarantine_timers: dict[str, asyncio.TimerHandle] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        while True:
            await self._delete_pods_of_missing_node(await self._due.get())

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._nodes.add(new.metadata.name)
            self._cancel_quarantine(new.metadata.name)
        elif old is not None:
            self._nodes.discard(old.metadata.name)
            self._start_quarantine(old.metadata.name)

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            remaining = self._pods_by_node[old.spec.node_name]
            remaining.pop(old.metadata.uid, None)
            if not remaining:
                self._cancel_quarantine(old.spec.node_name)
        if new is not None and new.spec.node_name:
            self._pods_by_node[new.spec.node_name][new.metadata.uid] = new
            self._start_quarantine(new.spec.node_name)

    def _start_quarantine(self, node: str) -> None:
        if node not in self._nodes and node not in self._quarantine_timers and self._pods_by_node[node]:
            loop = asyncio.get_running_loop()
            self._quarantine_timers[node] = loop.call_later(MISSING_NODE_GRACE_SECONDS, self._due.put_nowait, node)

    def _cancel_quarantine(self, node: str) -> None:
        timer = self._quarantine_timers.pop(node, None)
        if timer is not None:
            timer.cancel()

    async def _delete_pods_of_missing_node(self, node: str) -> None:
        self._cancel_quarantine(node)
        try:
            await retry_until_answered(partial(self._client.get, NODES, None, node))
        except NotFound:
            for pod in list(self._pods_by_node[node].values()):
                await self._force_delete_pod(pod, node)
        self._start_quarantine(node)

    async def _force_delete_pod(self, pod: PodView, node: str) -> None:
        """Mark an unfinished pod as failed and delete it without grace period: no kubelet can terminate it."""
        meta = pod.metadata
        status = {"phase": "Failed", "conditions": [disruption_condition(*_DISRUPTION_REASON, self._clock.now())]}
        delete = partial(self._client.delete, PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)
        log.warning("deleting pod of missing node", extra={"pod": f"{meta.namespace}/{meta.name}", "node": node})
        try:
            if not pod.is_finished:
                await patch_status(self._client, PODS, meta, status)
            await retry_until_answered(delete)
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("pod not deleted", extra={"pod": f"{meta.namespace}/{meta.name}", "error": str(error)})
