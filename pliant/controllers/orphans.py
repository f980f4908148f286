"""Pods that outlived their job: the garbage collector's work, except where it cannot do it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from pliant.controllers.nodes import NodeWatch
from pliant.errors import Conflict, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta, Pod
from pliant.kube.resources import PODS, Resource
from pliant.kube.store import ObjectStore
from pliant.model.job import JobKey
from pliant.model.rules import Rules
from pliant.runtime.clock import Clock

JOB_NAME = "job name"
"""The index of pods by kind and name of their owner."""
PATIENCE = timedelta(minutes=1)
"""What the garbage collector is given before we do its work."""


def job_names(pod: Pod) -> Iterable[str]:
    """Under which names a pod is found in the index."""
    refs = pod.metadata.owner_references
    return (_name(ref.kind, pod.metadata.namespace, ref.name) for ref in refs if ref.controller)


def masters_names(pod: Pod) -> Iterable[str]:
    """The same for a pod that a master made: whoever does so need not say that the job controls it."""
    refs = pod.metadata.owner_references
    return (_name(ref.kind, pod.metadata.namespace, ref.name) for ref in refs)


class Orphans:
    """Clears away the pods of jobs of one kind that are gone, or that gave way to another of the same name."""

    def __init__(self, client: KubeClient, clock: Clock, resource: Resource, pods: ObjectStore[Pod]) -> None:
        self._client = client
        self._clock = clock
        self._resource = resource
        self._pods = pods
        self._noticed: dict[JobKey, datetime] = {}
        """Since when jobs have had orphans."""

    async def clear(self, key: JobKey, living: str, nodes: NodeWatch, rules: Rules) -> timedelta | None:
        """Delete the pods of that name that belong to no living job; says when to look again if some must wait."""
        named = self._pods.by_index(JOB_NAME, _name(self._resource.kind, *key))
        orphans = [pod for pod in named if self._owner(pod) != living]
        if not orphans:
            self._noticed.pop(key, None)
            return None
        waits = [wait for pod in orphans if (wait := await self._let_go(key, pod, nodes, rules)) is not None]
        return min(waits, default=None)

    async def _let_go(self, key: JobKey, pod: Pod, nodes: NodeWatch, rules: Rules) -> timedelta | None:
        meta, now = pod.metadata, self._clock.now()
        fault = nodes.fault_under(pod)
        if fault is not None and fault.is_dead and meta.deletion_timestamp is not None:
            # Nobody is left on its node to confirm that it has ended.
            left = fault.since + rules.node_grace - now
            if left <= timedelta(0):
                await self._delete(meta, grace=0)
            return max(left, timedelta(0)) or None
        if meta.deletion_timestamp is not None:
            return None
        left = self._noticed.setdefault(key, now) + PATIENCE - now
        if left > timedelta(0):
            return left
        # The cache may be behind: only the server knows that the job is gone.
        if not await self._is_alive(key, pod):
            await self._delete(meta)
        return None

    async def _is_alive(self, key: JobKey, pod: Pod) -> bool:
        with suppress(NotFound):
            found = await self._client.get(self._resource, key.namespace, key.name)
            return bool(found["metadata"]["uid"] == self._owner(pod))
        return False

    def _owner(self, pod: Pod) -> str:
        refs = pod.metadata.owner_references
        return next((ref.uid for ref in refs if ref.kind == self._resource.kind), "")

    async def _delete(self, meta: ObjectMeta, grace: int | None = None) -> None:
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace=grace)


def _name(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}"
