"""Gives pods to nodes: each to the least loaded one that has room and takes it, of those it likes best."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from pliant.embedded.evictions import take_away
from pliant.embedded.gangs import SCHEDULERS, GangKey, Gangs, gang_of
from pliant.embedded.node.podevents import PodEvents
from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.preemption import Way, is_being_made, way_for
from pliant.embedded.room import Room, Tenant
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodMeta, PodView
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.placing import needs_of
from pliant.kube.resources import PODS
from pliant.runtime.clock import Clock

NAME = "default-scheduler"
_NAMES = SCHEDULERS | {NAME}
_PREEMPTED = ("PreemptionByScheduler", f"{NAME}: preempting to accommodate a higher priority pod")

_Deed = Coroutine[Any, Any, None]
_Turn = tuple[int, str, str, str]

log = logging.getLogger(__name__)


class Scheduler:
    """Binds pods that have no node; one that finds none is looked at again when a node or room appears.

    All decisions of a round are taken in one step, in turn, before any of them is carried out: so a gang has its
    places at once or not at all, and no two of them wait for each other with half of theirs.
    """

    def __init__(self, client: KubeClient, clock: Clock, events: PodEvents) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._room = Room()
        self._waiting: dict[str, PodView] = {}
        self._refused: dict[str, str] = {}
        """What was last told of pods that found no node."""
        self._woken = asyncio.Event()
        self.gangs = Gangs(client, on_change=self._woken.set)

    async def run(self) -> None:
        """Place pods until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            async with asyncio.TaskGroup() as tasks:
                for deed in self._round():
                    tasks.create_task(deed)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None:
            self._room.nodes[new.metadata.name] = new
        elif old is not None:
            self._room.nodes.pop(old.metadata.name, None)
        if old is None or new is None or _offer(old) != _offer(new):
            self._woken.set()

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        self.gangs.pod_changed(old, new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._release(old.metadata.uid)
        if new is None:
            return
        uid, node = new.metadata.uid, new.spec.node_name
        if new.is_finished:
            self._release(uid)
        elif node:
            self._seat(new, node)
        elif new.metadata.deletion_timestamp is not None:
            self._release(uid)
        elif new.spec.scheduler_name in _NAMES and uid not in self._room.tenants:
            if uid not in self._waiting:
                self._woken.set()
            self._waiting[uid] = new

    def _seat(self, pod: PodView, node: str) -> None:
        self._waiting.pop(pod.metadata.uid, None)
        self._refused.pop(pod.metadata.uid, None)
        self._room.put(pod, node)

    def _release(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)
        if self._room.free(uid) and self._waiting:
            self._woken.set()

    def _round(self) -> list[_Deed]:
        """What to do for all that wait, decided in turn."""
        deeds: list[_Deed] = []
        for gang, pods in _units(self._waiting.values()):
            deeds += self._place_gang(gang, pods) if gang else [self._place(pods[0])]
        return deeds

    def _place(self, pod: PodView) -> _Deed:
        node, problem = self._room.choice(pod)
        if node is not None:
            self._seat(pod, node)
            return self._bind(pod, node)
        if not is_being_made(pod, self._room):
            way = way_for(pod, self._room)
            if way is not None:
                self._room.promised[pod.metadata.uid] = Tenant(pod, way.node, needs_of(pod.spec))
                return self._clear(pod, way, problem)
        return self._refuse(pod, problem)

    def _place_gang(self, gang: GangKey, pods: list[PodView]) -> list[_Deed]:
        """Places for as many of a gang as there are, if that is enough of them."""
        name, least = f"pod group {gang.namespace}/{gang.name}", self.gangs.least(gang)
        if least is None:
            return [self._refuse(pod, f"{name} not found.") for pod in pods]
        wanted = least - self.gangs.placed(gang)
        if len(pods) < wanted:
            return [self._refuse(pod, f"{name} waits until {least} members are there.") for pod in pods]
        seats, problem = self._seats(pods, wanted)
        if len(seats) < wanted:
            why = f"{name}: {len(seats)} of {wanted} members fit, and all must at once: {problem}"
            return [self._refuse(pod, why) for pod in pods]
        for uid, node in seats.items():
            self._seat(self._waiting[uid], node)
        return [
            self._bind(pod, seats[pod.metadata.uid]) if pod.metadata.uid in seats else self._refuse(pod, problem)
            for pod in pods
        ]

    def _seats(self, pods: list[PodView], wanted: int) -> tuple[dict[str, str], str]:
        """A node for each pod that fits beside the others, and why one has none: spread out, else packed."""
        hungriest = sorted(pods, key=lambda pod: -sum(needs_of(pod.spec).values()))
        seats, problem = self._tried(pods, packed=False)
        if len(seats) < wanted:
            closer, other = self._tried(hungriest, packed=True)
            if len(closer) > len(seats):
                return closer, other
        return seats, problem

    def _tried(self, pods: list[PodView], *, packed: bool) -> tuple[dict[str, str], str]:
        seats: dict[str, str] = {}
        problem = ""
        for pod in pods:
            node, why = self._room.choice(pod, packed=packed)
            if node is None:
                problem = problem or why
            else:
                seats[pod.metadata.uid] = node
                self._room.put(pod, node)
        for uid in seats:
            self._room.free(uid)
        return seats, problem

    async def _bind(self, pod: PodView, node: str) -> None:
        meta = pod.metadata
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta.name, "uid": meta.uid}}
        body = {**binding, "target": target}
        create = partial(self._client.create, PODS, meta.namespace, body, subresource="binding", name=meta.name)
        try:
            await patiently(create)
        except TURNED_DOWN as refusal:
            # Gone, leaving, or bound by somebody else: the watch tells which.
            log.info("pod not bound", extra={"pod": f"{meta.namespace}/{meta.name}", "because": str(refusal)})
            self._release(meta.uid)

    async def _clear(self, pod: PodView, way: Way, problem: str) -> None:
        """Ask those in the way to leave."""
        await self._refuse(pod, problem)
        await self._nominate(pod.metadata, way.node)
        for each in way.victims:
            meta = each.pod.metadata
            await self._events.tell(meta, "Preempted", f"Preempted by pod {pod.metadata.uid} on node {way.node}")
            await take_away(self._client, meta, *_PREEMPTED, self._clock.now())

    async def _nominate(self, pod: PodMeta, node: str) -> None:
        """Show where room is being made for a pod."""
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        with suppress(*TURNED_DOWN):
            await self._client.patch(PODS, pod.namespace, pod.name, patch, subresource="status")

    async def _refuse(self, pod: PodView, message: str) -> None:
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
        except TURNED_DOWN:
            return
        await self._events.warn(meta, "FailedScheduling", message)


def _units(waiting: Iterable[PodView]) -> Iterator[tuple[GangKey | None, list[PodView]]]:
    """Single pods and whole gangs, in turn; a gang's turn is that of its first pod."""
    units: dict[GangKey | str, list[PodView]] = {}
    for pod in sorted(waiting, key=_turn):
        units.setdefault(gang_of(pod) or pod.metadata.uid, []).append(pod)
    for key, pods in units.items():
        yield (key if isinstance(key, GangKey) else None), pods


def _turn(pod: PodView) -> _Turn:
    """Pods of higher priority first, then the older ones."""
    meta = pod.metadata
    created = meta.creation_timestamp.isoformat() if meta.creation_timestamp else ""
    return -pod.spec.priority, created, meta.namespace, meta.name


def _offer(node: Node) -> tuple[object, ...]:
    """What of a node matters to those who look for one."""
    return node.spec, node.status, node.metadata.labels
