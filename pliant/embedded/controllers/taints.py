"""Taints nodes by their conditions, and evicts pods that do not tolerate a NoExecute taint."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from datetime import datetime
from functools import partial
from typing import Any

from pliant.embedded.object_views import PodObjectMeta, PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, patch_status, retry_until_answered
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Taint
from pliant.kube.resources import NODES, PODS
from pliant.kube.scheduling.taints import (
    TOLERATED_FOREVER_SECONDS,
    is_condition_taint,
    taints_for_node_conditions,
    tolerated_seconds,
)
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

log = logging.getLogger(__name__)


class NodeConditionTaintController:
    """Keeps taints that follow from node conditions up to date; taints that users set stay."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._changed: asyncio.Queue[Node] = asyncio.Queue()

    async def run(self) -> None:
        while True:
            node = await self._changed.get()
            if _derived_taint_keys(node.spec.taints) != _derived_taint_keys(taints_for_node_conditions(node)):
                await self._update_taints(node)

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._changed.put_nowait(new)

    async def _update_taints(self, node: Node) -> None:
        meta = node.metadata
        try:
            raw = await retry_until_answered(partial(self._client.get, NODES, None, meta.name))
            taints = self._merge_taints(raw.get("spec", {}).get("taints") or [], taints_for_node_conditions(node))
            # With the resource version a concurrent change gives a conflict; its watch event triggers another update.
            patch = {
                "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
                "spec": {"taints": taints},
            }
            await retry_until_answered(partial(self._client.patch, NODES, None, meta.name, patch))
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("node taints not written", extra={"node": meta.name, "error": str(error)})

    def _merge_taints(self, current: list[dict[str, Any]], desired: list[Taint]) -> list[dict[str, Any]]:
        """Return the taints of users and the desired ones; a taint that stays keeps its timeAdded."""
        desired_keys = _derived_taint_keys(desired)
        kept = [each for each in current if not is_condition_taint(each["key"]) or _taint_key(each) in desired_keys]
        missing = [each for each in desired if (each.key, each.effect) not in {_taint_key(known) for known in kept}]
        now = format_timestamp(self._clock.now())
        return [*kept, *({"key": each.key, "effect": each.effect, "timeAdded": now} for each in missing)]


def _taint_key(taint: dict[str, Any]) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _derived_taint_keys(taints: list[Taint] | tuple[Taint, ...]) -> set[tuple[str, str]]:
    return {(each.key, each.effect) for each in taints if is_condition_taint(each.key)}


_DISRUPTION_REASON = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


class TaintEvictionController:
    """Deletes each pod after the tolerationSeconds of its tolerations have passed."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self._pods_by_node: dict[str, dict[str, PodView]] = defaultdict(dict)
        self._tainted_since: dict[str, float] = {}
        """Time at which each pod was first seen on a node with taints that it does not tolerate forever, by uid."""
        self._eviction_timers: dict[str, asyncio.TimerHandle] = {}
        self._evicted: set[str] = set()
        self._due: asyncio.Queue[PodObjectMeta] = asyncio.Queue()

    async def run(self) -> None:
        while True:
            pod = await self._due.get()
            await mark_disrupted_and_delete(self._client, pod, *_DISRUPTION_REASON, self._clock.now())

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        """Schedule the evictions of a node; the pod garbage collector deletes the pods of a deleted node."""
        node = old or new
        if node is None:
            return
        self._taints[node.metadata.name] = new.spec.taints if new is not None else ()
        for pod in self._pods_by_node[node.metadata.name].values():
            self._schedule_eviction(pod)

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pods_by_node[old.spec.node_name].pop(old.metadata.uid, None)
            self._cancel_eviction(old.metadata.uid)
            self._evicted.discard(old.metadata.uid)
        if new is not None and new.spec.node_name:
            self._pods_by_node[new.spec.node_name][new.metadata.uid] = new
            self._schedule_eviction(new)

    def _schedule_eviction(self, pod: PodView) -> None:
        uid, loop = pod.metadata.uid, asyncio.get_running_loop()
        if uid in self._evicted:
            return
        seconds = tolerated_seconds(self._taints.get(pod.spec.node_name, ()), pod.spec.tolerations)
        if seconds == TOLERATED_FOREVER_SECONDS or pod.metadata.deletion_timestamp is not None:
            self._cancel_eviction(uid)
            return
        due_at = self._tainted_since.setdefault(uid, loop.time()) + seconds
        timer = self._eviction_timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        self._eviction_timers[uid] = loop.call_at(due_at, self._enqueue_eviction, pod.metadata)

    def _enqueue_eviction(self, pod: PodObjectMeta) -> None:
        self._evicted.add(pod.uid)
        self._due.put_nowait(pod)

    def _cancel_eviction(self, uid: str) -> None:
        self._tainted_since.pop(uid, None)
        timer = self._eviction_timers.pop(uid, None)
        if timer is not None:
            timer.cancel()


def disruption_condition(reason: str, message: str, now: datetime) -> dict[str, str]:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_timestamp(now),
    }


async def mark_disrupted_and_delete(
    client: KubeClient, pod: PodObjectMeta, reason: str, message: str, now: datetime
) -> None:
    """Set the DisruptionTarget condition of a pod, then delete the pod gracefully."""
    try:
        await patch_status(client, PODS, pod, {"conditions": [disruption_condition(reason, message, now)]})
        await retry_until_answered(partial(client.delete, PODS, pod.namespace, pod.name, uid=pod.uid))
    except NON_RETRYABLE_API_ERRORS as error:
        log.info("pod not deleted", extra={"pod": f"{pod.namespace}/{pod.name}", "error": str(error)})
