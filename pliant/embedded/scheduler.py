"""Gives pods to nodes: each to the least loaded one that has room and takes it, of those it likes best."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import partial

from pliant.embedded.affinity import is_wanted, liking
from pliant.embedded.amounts import amount
from pliant.embedded.node.podevents import PodEvents
from pliant.embedded.patience import patiently
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.taints import CORDONED, DISCOURAGES, KEEPS_OUT, untolerated
from pliant.embedded.views import ContainerView, PodView
from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import PODS
from pliant.runtime.clock import Clock

NAME = "default-scheduler"

Amounts = Mapping[str, Fraction]

log = logging.getLogger(__name__)


class Scheduler:
    """Binds pods that have no node; one that finds none is looked at again when a node or room appears."""

    def __init__(self, client: KubeClient, clock: Clock, events: PodEvents) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._nodes: dict[str, Node] = {}
        self._waiting: dict[str, PodView] = {}
        self._bound: dict[str, tuple[str, Amounts]] = {}
        """Node and needs of every pod that takes up room, by uid; our own bindings at once."""
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        self._refused: dict[str, str] = {}
        """What was last told of pods that found no node."""
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Place pods until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            async with asyncio.TaskGroup() as tasks:
                for pod in sorted(self._waiting.values(), key=_turn):
                    tasks.create_task(self._place(pod))

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None:
            self._nodes[new.metadata.name] = new
        elif old is not None:
            self._nodes.pop(old.metadata.name, None)
        if (
            old is None
            or new is None
            or (old.spec, old.status, old.metadata.labels)
            != (
                new.spec,
                new.status,
                new.metadata.labels,
            )
        ):
            self._woken.set()

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._release(old.metadata.uid)
        if new is None:
            return
        uid, node = new.metadata.uid, new.spec.node_name
        if new.is_finished:
            self._release(uid)
        elif node:
            self._occupy(uid, node, needs(new))
        elif (
            new.spec.scheduler_name == NAME and new.metadata.deletion_timestamp is None and uid not in self._bound
        ):
            if uid not in self._waiting:
                self._woken.set()
            self._waiting[uid] = new

    def _occupy(self, uid: str, node: str, needed: Amounts) -> None:
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)
        if uid not in self._bound:
            self._bound[uid] = node, needed
            self._used[node].update(needed)

    def _release(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)
        if uid in self._bound:
            node, needed = self._bound.pop(uid)
            self._used[node].subtract(needed)
            if self._waiting:
                self._woken.set()

    async def _place(self, pod: PodView) -> None:
        """Bind one pod, or tell why not."""
        meta, needed = pod.metadata, needs(pod)
        if meta.uid not in self._waiting:
            return
        node, problem = self._choice(pod, needed)
        if node is None:
            await self._tell_refused(pod, problem)
            return
        self._occupy(meta.uid, node, needed)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta.name, "uid": meta.uid}}
        body = {**binding, "target": target}
        create = partial(self._client.create, PODS, meta.namespace, body, subresource="binding", name=meta.name)
        try:
            await patiently(create)
        except (NotFound, Conflict, Invalid) as refusal:
            # Gone, leaving, or bound by somebody else: the watch tells which.
            log.info("pod not bound", extra={"pod": f"{meta.namespace}/{meta.name}", "because": str(refusal)})
            self._release(meta.uid)

    def _choice(self, pod: PodView, needed: Amounts) -> tuple[str | None, str]:
        """The node for a pod, or why there is none."""
        problems: Counter[str] = Counter()
        fitting: list[tuple[int, int, Fraction, str]] = []
        for name, node in self._nodes.items():
            lacks = _refusal(pod, node) or self._lacks(needed, node)
            problems.update(lacks)
            if not lacks:
                discouraged = len(untolerated(node.spec.taints, pod.spec.tolerations, DISCOURAGES))
                fitting.append((discouraged, -liking(pod.spec, node.metadata), self._load(node), name))
        if fitting:
            return min(fitting)[-1], ""
        reasons = ", ".join(f"{count} {problem}" for problem, count in sorted(problems.items()))
        count = len(self._nodes)
        return None, f"0/{count} nodes are available: {reasons or 'there are none'}."

    def _lacks(self, needed: Amounts, node: Node) -> list[str]:
        """What a node has too little of."""
        used, has = self._used[node.metadata.name], node.status.allocatable
        return [
            "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            for resource, wanted in needed.items()
            if wanted and used[resource] + wanted > amount(has.get(resource, "0"))
        ]

    def _load(self, node: Node) -> Fraction:
        """How full a node is, by its scarcest resource."""
        used = self._used[node.metadata.name]
        shares = (
            Fraction(used[resource]) / total
            for resource, has in node.status.allocatable.items()
            if (total := amount(has))
        )
        return max(shares, default=Fraction(0))

    async def _tell_refused(self, pod: PodView, message: str) -> None:
        """Say once that a pod has to wait, and say it again only for another reason."""
        meta = pod.metadata
        if self._refused.get(meta.uid) == message:
            return
        self._refused[meta.uid] = message
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PODS, meta.namespace, meta.name, patch, subresource="status")
        except (NotFound, Conflict, Invalid):
            return
        await self._events.warn(meta, "FailedScheduling", message)


def _refusal(pod: PodView, node: Node) -> list[str]:
    """Why a node does not take a pod, or the pod not the node: the first reason, as kube-scheduler tells it."""
    if node.spec.unschedulable and untolerated([CORDONED], pod.spec.tolerations, KEEPS_OUT):
        return ["node(s) were unschedulable"]
    if shunned := untolerated(node.spec.taints, pod.spec.tolerations, KEEPS_OUT):
        return [f"node(s) had untolerated taint {{{shunned[0].key}: {shunned[0].value}}}"]
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return ["node(s) were not ready"]
    if not is_wanted(pod.spec, node.metadata):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def needs(pod: PodView) -> dict[str, Fraction]:
    """What a pod takes up: the sum of its containers, or the hungriest init container where that is more."""
    total: Counter[str] = Counter({"pods": Fraction(1)})
    for container in pod.spec.containers:
        total.update(_requests(container))
    result = {resource: Fraction(value) for resource, value in total.items()}
    for container in pod.spec.init_containers:
        for resource, value in _requests(container).items():
            result[resource] = max(result.get(resource, Fraction(0)), value)
    return result


def _requests(container: ContainerView) -> dict[str, Fraction]:
    asked = {**container.resources.limits, **container.resources.requests}
    return {resource: amount(value) for resource, value in asked.items()}


def _turn(pod: PodView) -> tuple[int, str, str, str]:
    """Pods of higher priority first, then the older ones."""
    meta = pod.metadata
    created = meta.creation_timestamp.isoformat() if meta.creation_timestamp else ""
    return -pod.spec.priority, created, meta.namespace, meta.name
