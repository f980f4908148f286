"""Deletion of pods whose job is gone, where the garbage collector does not do it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from pliant.controllers.node_faults import NodeFaultDetector
from pliant.errors import Conflict, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta, OwnerReference, Pod
from pliant.kube.resources import PODS, Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.job import JobKey
from pliant.model.operator_config import OperatorConfig
from pliant.runtime.clock import Clock

JOB_NAME_INDEX = "job name"  # the index of pods by API group, kind and name of their owner
GARBAGE_COLLECTION_GRACE = timedelta(minutes=1)
"""How long the garbage collector has before the operator deletes orphan pods itself."""


def job_name_index_keys(pod: Pod) -> Iterable[str]:
    refs = pod.metadata.owner_references
    return (_owner_index_key(_group_kind(ref), pod.metadata.namespace, ref.name) for ref in refs if ref.controller)


def external_job_name_index_keys(pod: Pod) -> Iterable[str]:
    """Return the index keys of a pod created by a master, which need not mark the job as its controller."""
    refs = pod.metadata.owner_references
    return (_owner_index_key(_group_kind(ref), pod.metadata.namespace, ref.name) for ref in refs)


class OrphanPodCleaner:
    def __init__(self, client: KubeClient, clock: Clock, resource: Resource, pods: ObjectStore[Pod]) -> None:
        self._client = client
        self._clock = clock
        self._resource = resource
        self._pods = pods
        self._group_kind = (resource.group, resource.kind)
        self._noticed_at: dict[JobKey, float] = {}  # when orphans of a job were first noticed, on the monotonic clock

    async def delete_orphans(
        self, key: JobKey, live_uid: str, node_faults: NodeFaultDetector, config: OperatorConfig
    ) -> timedelta | None:
        """Delete the pods of this job name that belong to no existing job; return when to retry if some must wait."""
        named = self._pods.by_index(JOB_NAME_INDEX, _owner_index_key(self._group_kind, *key))
        orphans = [pod for pod in named if self._owner_uid(pod) != live_uid]
        if not orphans:
            self._noticed_at.pop(key, None)
            return None
        waits = [await self._delete_if_due(key, pod, node_faults, config) for pod in orphans]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _delete_if_due(
        self, key: JobKey, pod: Pod, node_faults: NodeFaultDetector, config: OperatorConfig
    ) -> timedelta | None:
        meta, now = pod.metadata, self._clock.now()
        fault = node_faults.fault_for_pod(pod)
        if fault is not None and fault.is_dead and meta.deletion_timestamp is not None:
            # No kubelet is left to confirm that the pod has terminated.
            remaining = fault.since + config.node_grace_period - now
            if remaining <= timedelta(0):
                await self._delete_pod(key, meta, grace_seconds=0)
            return max(remaining, timedelta(0)) or None
        if meta.deletion_timestamp is not None:
            return None
        awake_at = self._clock.monotonic()
        elapsed = timedelta(seconds=awake_at - self._noticed_at.setdefault(key, awake_at))
        remaining = GARBAGE_COLLECTION_GRACE - elapsed
        if remaining > timedelta(0):
            return remaining
        # The cache may lag behind: only the API server knows that the job is gone.
        if not await self._owner_exists(key, pod):
            await self._delete_pod(key, meta)
        return None

    async def _owner_exists(self, key: JobKey, pod: Pod) -> bool:
        with suppress(NotFound):
            job = await self._client.get(self._resource, key.namespace, key.name)
            return bool(job["metadata"]["uid"] == self._owner_uid(pod))
        return False

    def _owner_uid(self, pod: Pod) -> str:
        refs = pod.metadata.owner_references
        return next((ref.uid for ref in refs if _group_kind(ref) == self._group_kind), "")

    async def _delete_pod(self, key: JobKey, meta: ObjectMeta, grace_seconds: int | None = None) -> None:
        client = self._client.for_flow(WriteFlow(*key))
        with suppress(NotFound, Conflict):
            await client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=grace_seconds)


def _group_kind(ref: OwnerReference) -> tuple[str, str]:
    """Return the group and kind of an owner: jobs of two groups may have the same kind and name."""
    return ref.api_version.rpartition("/")[0], ref.kind


def _owner_index_key(group_kind: tuple[str, str], namespace: str, name: str) -> str:
    return f"{'/'.join(group_kind)} {namespace}/{name}"
