"""Takes pods off nodes whose marks they do not put up with, as Kubernetes' taint manager does."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from datetime import datetime
from functools import partial

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.object_views import PodObjectMeta, PodView
from pliant.embedded.retries import REJECTION_ERRORS, with_retries
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Taint
from pliant.kube.resources import PODS
from pliant.kube.scheduling.taints import UNLIMITED_SECONDS, tolerated_seconds
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import Clock

_DISRUPTION_REASON = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")

log = logging.getLogger(__name__)


class TaintEvictionController:
    """Deletes pods as soon as they have put up with a `NoExecute` taint for as long as they said they would."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        """Those on each node, by uid."""
        self._tainted_since: dict[str, float] = {}
        """When each pod that will have to leave first met the taints that drive it out."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._evicted: set[str] = set()
        """Those that were told to leave."""
        self._due: asyncio.Queue[PodObjectMeta] = asyncio.Queue()

    async def run(self) -> None:
        """Delete pods until cancelled."""
        while True:
            pod = await self._due.get()
            await delete_disrupted_pod(self._client, pod, *_DISRUPTION_REASON, self._clock.now())

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node; the pods of one that is deleted are for others to take away."""
        known = old or new
        if known is None:
            return
        self._taints[known.metadata.name] = new.spec.taints if new is not None else ()
        for pod in self._pods[known.metadata.name].values():
            self._schedule_eviction(pod)

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pods[old.spec.node_name].pop(old.metadata.uid, None)
            self._cancel_eviction(old.metadata.uid)
            self._evicted.discard(old.metadata.uid)
        if new is not None and new.spec.node_name:
            self._pods[new.spec.node_name][new.metadata.uid] = new
            self._schedule_eviction(new)

    def _schedule_eviction(self, pod: PodView) -> None:
        """Set the time at which a pod has to leave, or spare it."""
        uid, loop = pod.metadata.uid, asyncio.get_running_loop()
        if uid in self._evicted:
            return
        patience = tolerated_seconds(self._taints.get(pod.spec.node_name, ()), pod.spec.tolerations)
        if patience == UNLIMITED_SECONDS or pod.metadata.deletion_timestamp is not None:
            self._cancel_eviction(uid)
            return
        at = self._tainted_since.setdefault(uid, loop.time()) + patience
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        self._timers[uid] = loop.call_at(at, self._enqueue_eviction, pod.metadata)

    def _enqueue_eviction(self, pod: PodObjectMeta) -> None:
        self._evicted.add(pod.uid)
        self._due.put_nowait(pod)

    def _cancel_eviction(self, uid: str) -> None:
        self._tainted_since.pop(uid, None)
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()


def disruption_condition(reason: str, message: str, now: datetime) -> dict[str, str]:
    """The condition that tells why a pod has to go, through no fault of its own."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_timestamp(now),
    }


async def delete_disrupted_pod(
    client: KubeClient, pod: PodObjectMeta, reason: str, message: str, now: datetime
) -> None:
    """Say why a pod has to go, then let it go in good order."""
    condition = disruption_condition(reason, message, now)
    patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    where = PODS, pod.namespace, pod.name
    explain = partial(client.patch, *where, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")
    try:
        await with_retries(explain)
        await with_retries(partial(client.delete, *where, uid=pod.uid))
    except REJECTION_ERRORS as refusal:
        log.info("pod not taken away", extra={"pod": f"{pod.namespace}/{pod.name}", "because": str(refusal)})
