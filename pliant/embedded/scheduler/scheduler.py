"""Assigns pods to nodes: the least loaded node that fits, among those the pod prefers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from pliant.embedded.controllers.taints import mark_disrupted_and_delete
from pliant.embedded.kubelet.pods.event_recorder import PodEventRecorder
from pliant.embedded.object_views import PodObjectMeta, PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, retry_until_answered
from pliant.embedded.scheduler.cache import PodAssignment, SchedulerCache
from pliant.embedded.scheduler.pod_groups import (
    GANG_SCHEDULER_NAMES,
    GangKey,
    PodGroupController,
    gang_of,
    needs_pod_group,
)
from pliant.embedded.scheduler.preemption import PreemptionPlan, find_preemption, is_preemption_pending
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import PODS
from pliant.kube.scheduling.fit import effective_pod_requests
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

DEFAULT_SCHEDULER_NAME = "default-scheduler"
_HANDLED_SCHEDULER_NAMES = GANG_SCHEDULER_NAMES | {DEFAULT_SCHEDULER_NAME}
_PREEMPTION_REASON = (
    "PreemptionByScheduler",
    f"{DEFAULT_SCHEDULER_NAME}: preempting to accommodate a higher priority pod",
)

_SchedulingAction = Coroutine[Any, Any, None]
_QueueSortKey = tuple[int, str, str, str]

log = logging.getLogger(__name__)


class Scheduler:
    """Binds pending pods; an unschedulable pod is tried again when a node or free resources appear.

    Each round decides on all pending pods, in queue order, before the first bind call. So a gang is scheduled
    as a whole or not at all, and two gangs never wait for each other with half of their pods scheduled.
    """

    def __init__(self, client: KubeClient, clock: Clock, events: PodEventRecorder) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._cache = SchedulerCache()
        self._unscheduled: dict[str, PodView] = {}
        self._reported_messages: dict[str, str] = {}
        self._woken = asyncio.Event()
        self.pod_groups = PodGroupController(client, on_change=self._woken.set)

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            async with asyncio.TaskGroup() as tasks:
                for action in self._schedule_pending():
                    tasks.create_task(action)

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._cache.nodes[new.metadata.name] = new
        elif old is not None:
            self._cache.nodes.pop(old.metadata.name, None)
        if old is None or new is None or _scheduling_inputs(old) != _scheduling_inputs(new):
            self._woken.set()

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        self.pod_groups.on_pod_change(old, new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget_pod(old.metadata.uid)
        if new is None:
            return
        uid, node = new.metadata.uid, new.spec.node_name
        if new.is_finished:
            self._forget_pod(uid)
        elif node:
            self._assume_pod(new, node)
        elif new.metadata.deletion_timestamp is not None or new.spec.scheduling_gates:
            self._forget_pod(uid)
        elif new.spec.scheduler_name in _HANDLED_SCHEDULER_NAMES and uid not in self._cache.assignments:
            if uid not in self._unscheduled:
                self._woken.set()
            self._unscheduled[uid] = new

    def _assume_pod(self, pod: PodView, node: str) -> None:
        self._unscheduled.pop(pod.metadata.uid, None)
        self._reported_messages.pop(pod.metadata.uid, None)
        self._cache.assign_pod(pod, node)

    def _forget_pod(self, pod_uid: str) -> None:
        self._unscheduled.pop(pod_uid, None)
        self._reported_messages.pop(pod_uid, None)
        if self._cache.release_pod(pod_uid) and self._unscheduled:
            self._woken.set()

    def _schedule_pending(self) -> list[_SchedulingAction]:
        actions: list[_SchedulingAction] = []
        for gang, pods in _group_by_gang(self._unscheduled.values()):
            actions += self._schedule_gang(gang, pods) if gang else [self._schedule_pod(pods[0])]
        return actions

    def _schedule_pod(self, pod: PodView) -> _SchedulingAction:
        node, message = self._cache.choose_node(pod)
        if node is not None:
            self._assume_pod(pod, node)
            return self._bind(pod, node)
        if not is_preemption_pending(pod, self._cache):
            plan = find_preemption(pod, self._cache)
            if plan is not None:
                self._cache.nominated[pod.metadata.uid] = PodAssignment(
                    pod, plan.node, effective_pod_requests(pod.spec)
                )
                return self._preempt_victims(pod, plan, message)
        return self._mark_unschedulable(pod, message)

    def _schedule_gang(self, gang: GangKey, pods: list[PodView]) -> list[_SchedulingAction]:
        """Assign nodes to as many pods of a gang as fit, if minMember is reached."""
        name, min_member = f"pod group {gang.namespace}/{gang.name}", self.pod_groups.min_member(gang)
        if min_member is None:
            return [
                self._mark_unschedulable(pod, f"{name} not found.")
                if needs_pod_group(pod, gang)
                else self._schedule_pod(pod)
                for pod in pods
            ]
        needed = min_member - self.pod_groups.scheduled_count(gang)
        if len(pods) < needed:
            found = self.pod_groups.scheduled_count(gang) + len(pods)
            message = f"{name} cannot find enough sibling pods, current pods number: {found}"
            return [self._mark_unschedulable(pod, f"{message}, minMember of group: {min_member}") for pod in pods]
        nodes, reason = self._find_gang_nodes(pods, needed)
        if len(nodes) < needed:
            message = f"{name}: {len(nodes)} of {needed} pods fit, and they must be scheduled together: {reason}"
            return [self._mark_unschedulable(pod, message) for pod in pods]
        for uid, node in nodes.items():
            self._assume_pod(self._unscheduled[uid], node)
        return [
            self._bind(pod, nodes[pod.metadata.uid])
            if pod.metadata.uid in nodes
            else self._mark_unschedulable(pod, reason)
            for pod in pods
        ]

    def _find_gang_nodes(self, pods: list[PodView], min_pods: int) -> tuple[dict[str, str], str]:
        """Return a node for each pod that fits, and why others do not: spread first, packed if too few fit."""
        largest_first = sorted(pods, key=lambda pod: -sum(effective_pod_requests(pod.spec).values()))
        nodes, reason = self._try_assignments(pods, prefer_packed=False)
        if len(nodes) < min_pods:
            packed_nodes, packed_reason = self._try_assignments(largest_first, prefer_packed=True)
            if len(packed_nodes) > len(nodes):
                return packed_nodes, packed_reason
        return nodes, reason

    def _try_assignments(self, pods: list[PodView], *, prefer_packed: bool) -> tuple[dict[str, str], str]:
        nodes: dict[str, str] = {}
        reason = ""
        for pod in pods:
            node, message = self._cache.choose_node(pod, prefer_packed=prefer_packed)
            if node is None:
                reason = reason or message
            else:
                nodes[pod.metadata.uid] = node
                self._cache.assign_pod(pod, node)
        for uid in nodes:
            self._cache.release_pod(uid)
        return nodes, reason

    async def _bind(self, pod: PodView, node: str) -> None:
        meta = pod.metadata
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta.name, "uid": meta.uid}}
        body = {**binding, "target": target}
        create = partial(self._client.create, PODS, meta.namespace, body, subresource="binding", name=meta.name)
        try:
            await retry_until_answered(create)
        except NON_RETRYABLE_API_ERRORS as error:
            # The pod is deleted, terminating or bound by another scheduler: a watch event follows.
            log.info("pod not bound", extra={"pod": f"{meta.namespace}/{meta.name}", "error": str(error)})
            self._forget_pod(meta.uid)

    async def _preempt_victims(self, pod: PodView, plan: PreemptionPlan, message: str) -> None:
        await self._mark_unschedulable(pod, message)
        await self._set_nominated_node(pod.metadata, plan.node)
        for victim in plan.victims:
            meta = victim.pod.metadata
            await self._events.emit_normal(
                meta, "Preempted", f"Preempted by pod {pod.metadata.uid} on node {plan.node}"
            )
            await mark_disrupted_and_delete(self._client, meta, *_PREEMPTION_REASON, self._clock.now())

    async def _set_nominated_node(self, pod: PodObjectMeta, node: str) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        with suppress(*NON_RETRYABLE_API_ERRORS):
            await self._client.patch(PODS, pod.namespace, pod.name, patch, subresource="status")

    async def _mark_unschedulable(self, pod: PodView, message: str) -> None:
        """Set the PodScheduled condition and emit an event, once for each message."""
        meta = pod.metadata
        if self._reported_messages.get(meta.uid) == message:
            return
        self._reported_messages[meta.uid] = message
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": format_timestamp(self._clock.now()),
        }
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PODS, meta.namespace, meta.name, patch, subresource="status")
        except NON_RETRYABLE_API_ERRORS:
            return
        await self._events.emit_warning(meta, "FailedScheduling", message)


def _group_by_gang(pending_pods: Iterable[PodView]) -> Iterator[tuple[GangKey | None, list[PodView]]]:
    """Yield single pods and whole gangs in queue order; a gang is queued with its first pod."""
    units: dict[GangKey | str, list[PodView]] = {}
    for pod in sorted(pending_pods, key=_queue_sort_key):
        units.setdefault(gang_of(pod) or pod.metadata.uid, []).append(pod)
    for key, pods in units.items():
        yield (key if isinstance(key, GangKey) else None), pods


def _queue_sort_key(pod: PodView) -> _QueueSortKey:
    meta = pod.metadata
    created = meta.creation_timestamp.isoformat() if meta.creation_timestamp else ""
    return -pod.spec.priority, created, meta.namespace, meta.name


def _scheduling_inputs(node: Node) -> tuple[object, ...]:
    return node.spec, node.status, node.metadata.labels
