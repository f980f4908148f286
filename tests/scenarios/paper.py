"""A kubelet that runs nothing: it writes of the pods on its nodes what a test wants them to have come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, assert_never

from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import SystemClock
from tests.scenarios.laws import Object

STUCK_REASONS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
)
"""Why kubelets say that a container cannot be created."""
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Runs:
    """Comes up some seconds later, and stays."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Ends:
    """Comes up, and ends with this code some seconds later."""

    code: int = 0
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Stuck:
    """Never comes up: its containers cannot be created."""

    reason: str
    message: str = "so the test wants it"


@dataclass(frozen=True, slots=True)
class Evicted:
    """Comes up, and is ended by its node for reasons of the node's own."""

    reason: str = "Evicted"
    message: str = "The node was low on resource: memory."


MAX_REQUESTS = 64
"""At a time: an API server closes connections if too many of them wait for their first answer."""
Behaviour = Runs | Ends | Stuck | Evicted
Script = Callable[[Object], Behaviour]
"""A pod to what becomes of it."""


class PaperKubelet:
    """Looks after the pods of the nodes it serves; nobody does for those that it has abandoned."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.behaviour: Script = lambda _: Runs()
        self.seat: Callable[[Object], str] | None = None
        """A pod to its node, for pods that ask for the scheduler of this name: a test places them itself."""
        self.scheduler = ""
        self._client = client
        self._pods = Informer(client, PODS, dict, namespace=namespace, on_change=self._changed)
        self._served: set[str] = set()
        self._orders: dict[str, Behaviour] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._addresses = count(1)
        self._requests = asyncio.Semaphore(MAX_REQUESTS)

    async def run(self) -> None:
        """Look after pods until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await self._pods.run()

    async def wait_synced(self) -> None:
        """Return once all pods there are have been seen."""
        await self._pods.wait_synced()

    def serve(self, node: str) -> None:
        """Look after a node from now on, beginning with what was missed."""
        self._served.add(node)
        for pod in self._pods.store.all():
            self._changed(None, pod)

    def abandon(self, node: str) -> None:
        """Do nothing more for a node: what is said of its pods stays, whatever is asked of them."""
        self._served.discard(node)
        for pod in self._pods.store.all():
            if _node(pod) == node:
                self._interrupt(pod["metadata"]["uid"])

    def order(self, name: str, behaviour: Behaviour) -> None:
        """Let a pod that is there do something else from now on; its successors do as scripted."""
        for pod in self._pods.store.all():
            if pod["metadata"]["name"] == name:
                self._orders[pod["metadata"]["uid"]] = behaviour
                self._interrupt(pod["metadata"]["uid"])
                self._changed(None, pod)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and self.seat is not None and _asks_for(new, self.scheduler):
            self._own(self._bind(new, self.seat(new)))
        if new is None or _node(new) not in self._served:
            return
        uid = new["metadata"]["uid"]
        if "deletionTimestamp" in new["metadata"]:
            self._interrupt(uid)
            self._own(self._let_go(new))
        elif uid not in self._lives and (new.get("status") or {}).get("phase") not in _OVER:
            self._lives[uid] = self._own(self._live(new, self._orders.get(uid) or self.behaviour(new)))

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "told of pods before it runs"
        return self._tasks.create_task(work)

    def _interrupt(self, uid: str) -> None:
        if (life := self._lives.pop(uid, None)) is not None:
            life.cancel()

    async def _live(self, pod: Object, behaviour: Behaviour) -> None:
        match behaviour:
            case Stuck(reason, message):
                await self._report(pod, "Pending", {"waiting": {"reason": reason, "message": message}})
            case Runs(after):
                await asyncio.sleep(after)
                await self._report(pod, "Running", {"running": {"startedAt": _now()}})
            case Ends(code, after):
                await self._report(pod, "Running", {"running": {"startedAt": _now()}})
                await asyncio.sleep(after)
                await self._report(pod, "Failed" if code else "Succeeded", {"terminated": _end(code)})
            case Evicted(reason, message):
                await self._report(pod, "Running", {"running": {"startedAt": _now()}})
                await self._report(pod, "Failed", {"terminated": _end(137)}, reason=reason, message=message)
            case other:
                assert_never(other)

    async def _report(self, pod: Object, phase: str, state: Mapping[str, Any], **more: str) -> None:
        is_up = "running" in state
        ready = "True" if is_up else "False"
        about = {"image": "paper", "imageID": "paper", "ready": is_up, "started": is_up, "restartCount": 0}
        status = {
            **more,
            "phase": phase,
            "startTime": _now(),
            "hostIP": "198.19.0.1",
            # What merges by type leaves alone what the scheduler said.
            "conditions": [
                {"type": kind, "status": truth, "lastTransitionTime": _now()}
                for kind, truth in (("Initialized", "True"), ("ContainersReady", ready), ("Ready", ready))
            ],
            "containerStatuses": [
                {"name": each["name"], **about, "state": state} for each in pod["spec"]["containers"]
            ],
        }
        if phase == "Running":
            # A range that is for tests alone, and nobody answers.
            address = f"198.18.0.{next(self._addresses) % 250 + 1}"
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
        meta = pod["metadata"]
        # The uid makes the server refuse, should another pod have taken the name.
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        where = PODS, meta["namespace"], meta["name"]
        with suppress(NotFound, Conflict, Invalid):  # it has left, or is another by now
            async with self._requests:
                await self._client.patch(*where, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")

    async def _bind(self, pod: Object, node: str) -> None:
        meta, target = pod["metadata"], {"apiVersion": "v1", "kind": "Node", "name": node}
        about = {"name": meta["name"], "uid": meta["uid"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
        where = PODS, meta["namespace"], body
        with suppress(NotFound, Conflict):  # it has left, or was told of twice
            async with self._requests:
                await self._client.create(*where, subresource="binding", name=meta["name"])

    async def _let_go(self, pod: Object) -> None:
        meta = pod["metadata"]
        with suppress(NotFound, Conflict):  # it has left already
            async with self._requests:
                await self._client.delete(
                    PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace_period_seconds=0
                )


def _asks_for(pod: Object, scheduler: str) -> bool:
    is_free = not _node(pod) and "deletionTimestamp" not in pod["metadata"]
    return is_free and bool(pod["spec"].get("schedulerName") == scheduler)


def _end(code: int) -> Object:
    return {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _now()}


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _now() -> str:
    return format_timestamp(SystemClock().now())
