"""The ReplicaSet controller: keeps as many pods as `spec.replicas` says."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import NamedTuple

from pliant.embedded.controllers.workloads.ownership import Claimer
from pliant.embedded.controllers.workloads.pod_ranking import order_for_deletion
from pliant.embedded.controllers.workloads.views import (
    REPLICA_SETS,
    Object,
    ReplicaSet,
    WorkloadKey,
    is_active,
    is_terminating,
    time_until_available,
)
from pliant.embedded.controllers.workloads.writes import WorkloadWriter, build_pod, run_in_batches
from pliant.errors import ApiError, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

_MAX_WRITES_PER_SYNC = 500
_REPLICA_FAILURE = "ReplicaFailure"


class _Failure(NamedTuple):
    error: ApiError | None = None
    reason: str = ""
    """The reason of the condition that reports the error."""


_NO_FAILURE = _Failure()


class ReplicaSetReconciler:
    def __init__(
        self, writer: WorkloadWriter, clock: Clock, replica_sets: ObjectStore[ReplicaSet], pods: ObjectStore[Pod]
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._replica_sets = replica_sets
        self._pods = pods
        self._claimer = Claimer(writer, REPLICA_SETS, PODS, Pod)

    async def reconcile(self, key: WorkloadKey) -> timedelta | None:
        """Create or delete pods and write the status; return when the next pod becomes available."""
        replica_set = self._replica_sets.get(*key)
        if replica_set is None:
            return None
        pods = await self._claimer.claim(self._pods, replica_set.metadata, replica_set.spec.selector)
        failure = _NO_FAILURE
        if replica_set.metadata.deletion_timestamp is None:
            failure = await self._scale(replica_set, [pod for pod in pods if is_active(pod)])
            pods = await self._claimer.claim(self._pods, replica_set.metadata, replica_set.spec.selector)
        await self._write_status(replica_set, pods, failure)
        if failure.error is not None:
            raise failure.error
        return self._time_until_next_available(replica_set, pods)

    async def _scale(self, replica_set: ReplicaSet, active: list[Pod]) -> _Failure:
        """Create missing or delete surplus pods."""
        missing = replica_set.spec.replicas - len(active)
        if missing > 0:
            create = partial(self._create_pod, replica_set)
            creations = [create] * min(missing, _MAX_WRITES_PER_SYNC)
            return _Failure(await run_in_batches(creations), "FailedCreate")
        surplus = order_for_deletion(active)[: min(-missing, _MAX_WRITES_PER_SYNC)] if missing else []
        deletions = [partial(self._delete_pod, replica_set, pod) for pod in surplus]
        return _Failure(await run_in_batches(deletions), "FailedDelete")

    async def _create_pod(self, replica_set: ReplicaSet) -> None:
        meta = replica_set.metadata
        body = build_pod(REPLICA_SETS, meta, replica_set.spec.template)
        try:
            pod = await self._writer.create(PODS, meta.namespace, body, Pod)
        except ApiError as error:
            if not _is_namespace_terminating(error):
                event = ("FailedCreate", f"Error creating: {error}")
                await self._writer.emit(REPLICA_SETS, meta, event, warning=True)
            raise
        event = ("SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        await self._writer.emit(REPLICA_SETS, meta, event, warning=False)

    async def _delete_pod(self, replica_set: ReplicaSet, pod: Pod) -> None:
        meta = replica_set.metadata
        try:
            await self._writer.delete(PODS, pod.metadata)
        except ApiError as error:
            event = ("FailedDelete", f"Error deleting: {error}")
            await self._writer.emit(REPLICA_SETS, meta, event, warning=True)
            raise
        event = ("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        await self._writer.emit(REPLICA_SETS, meta, event, warning=False)

    async def _write_status(self, replica_set: ReplicaSet, pods: list[Pod], failure: _Failure) -> None:
        status = self._build_status(replica_set, pods)
        condition = self._failure_condition(replica_set, failure)
        others = [each for each in replica_set.status.get("conditions") or () if each["type"] != _REPLICA_FAILURE]
        if conditions := [*others, *([condition] if condition is not None else ())]:
            status["conditions"] = conditions
        if status == replica_set.status:
            return
        try:
            await self._writer.replace_status(REPLICA_SETS, replica_set.metadata, status, ReplicaSet)
        except NotFound:
            return

    def _build_status(self, replica_set: ReplicaSet, pods: list[Pod]) -> Object:
        spec, now = replica_set.spec, self._clock.now()
        active = [pod for pod in pods if is_active(pod)]
        labels = ((spec.template.get("metadata") or {}).get("labels") or {}).items()
        waits = [time_until_available(pod, spec.min_ready_seconds, now) for pod in active]
        counts = {
            "fullyLabeledReplicas": sum(labels <= pod.metadata.labels.items() for pod in active),
            "readyReplicas": sum(wait is not None for wait in waits),
            "availableReplicas": sum(wait == timedelta(0) for wait in waits),
        }
        return {
            "replicas": len(active),
            **{field: count for field, count in counts.items() if count},
            "terminatingReplicas": sum(map(is_terminating, pods)),
            "observedGeneration": replica_set.metadata.generation,
        }

    def _failure_condition(self, replica_set: ReplicaSet, failure: _Failure) -> Object | None:
        if failure.error is None:
            return None
        known = next((x for x in replica_set.status.get("conditions") or () if x["type"] == _REPLICA_FAILURE), None)
        if known is not None:
            return dict(known)  # its time does not change as long as the failure lasts
        now = format_timestamp(self._clock.now())
        condition = {"type": _REPLICA_FAILURE, "status": "True", "lastTransitionTime": now}
        return {**condition, "reason": failure.reason, "message": str(failure.error)}

    def _time_until_next_available(self, replica_set: ReplicaSet, pods: list[Pod]) -> timedelta | None:
        now, seconds = self._clock.now(), replica_set.spec.min_ready_seconds
        waits = [time_until_available(pod, seconds, now) for pod in pods if is_active(pod)]
        return min((wait for wait in waits if wait), default=None)


def _is_namespace_terminating(error: ApiError) -> bool:
    causes = error.details.get("causes") or ()
    return any(each.get("reason") == "NamespaceTerminating" for each in causes)
