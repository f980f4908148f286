"""Takes pods off nodes whose marks they do not put up with, as Kubernetes' taint manager does."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from datetime import datetime
from functools import partial

from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodMeta, PodView
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Taint
from pliant.kube.resources import PODS
from pliant.kube.taints import FOR_EVER, seconds_tolerated
from pliant.kube.transport import STRATEGIC_PATCH
from pliant.runtime.clock import Clock

_BECAUSE = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")

log = logging.getLogger(__name__)


class Evictions:
    """Deletes pods as soon as they have put up with a `NoExecute` taint for as long as they said they would."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        """Those on each node, by uid."""
        self._since: dict[str, float] = {}
        """When each pod that will have to leave first met the taints that drive it out."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._told: set[str] = set()
        """Those that were told to leave."""
        self._due: asyncio.Queue[PodMeta] = asyncio.Queue()

    async def run(self) -> None:
        """Delete pods until cancelled."""
        while True:
            pod = await self._due.get()
            await take_away(self._client, pod, *_BECAUSE, self._clock.now())

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node; the pods of one that is deleted are for others to take away."""
        known = old or new
        if known is None:
            return
        self._taints[known.metadata.name] = new.spec.taints if new is not None else ()
        for pod in self._pods[known.metadata.name].values():
            self._review(pod)

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pods[old.spec.node_name].pop(old.metadata.uid, None)
            self._spare(old.metadata.uid)
            self._told.discard(old.metadata.uid)
        if new is not None and new.spec.node_name:
            self._pods[new.spec.node_name][new.metadata.uid] = new
            self._review(new)

    def _review(self, pod: PodView) -> None:
        """Set the time at which a pod has to leave, or spare it."""
        uid, loop = pod.metadata.uid, asyncio.get_running_loop()
        if uid in self._told:
            return
        patience = seconds_tolerated(self._taints.get(pod.spec.node_name, ()), pod.spec.tolerations)
        if patience == FOR_EVER or pod.metadata.deletion_timestamp is not None:
            self._spare(uid)
            return
        at = self._since.setdefault(uid, loop.time()) + patience
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        self._timers[uid] = loop.call_at(at, self._tell, pod.metadata)

    def _tell(self, pod: PodMeta) -> None:
        self._told.add(pod.uid)
        self._due.put_nowait(pod)

    def _spare(self, uid: str) -> None:
        self._since.pop(uid, None)
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()


def disruption(reason: str, message: str, now: datetime) -> dict[str, str]:
    """The condition that tells why a pod has to go, through no fault of its own."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }


async def take_away(client: KubeClient, pod: PodMeta, reason: str, message: str, now: datetime) -> None:
    """Say why a pod has to go, then let it go in good order."""
    condition = disruption(reason, message, now)
    patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    where = PODS, pod.namespace, pod.name
    explain = partial(client.patch, *where, patch, content_type=STRATEGIC_PATCH, subresource="status")
    try:
        await patiently(explain)
        await patiently(partial(client.delete, *where, uid=pod.uid))
    except TURNED_DOWN as refusal:
        log.info("pod not taken away", extra={"pod": f"{pod.namespace}/{pod.name}", "because": str(refusal)})
