"""Resource usage per node and namespace, updated incrementally from pod changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from pliant.controllers.autoscale.object_views import ClusterPod
from pliant.controllers.autoscale.pod_shapes import PodRequests, PodShapeCache

OVERDUE_TERMINATION_GRACE = timedelta(seconds=30)
"""How long after its deletion deadline a pod still counts as about to free its resources."""

_NO_PODS: Mapping[tuple[str, int], ClusterPod] = {}


class ClusterChange(Enum):
    NONE = 0
    CAPACITY = 1  # capacity was freed or taken
    DEMAND = 2  # pods are pending, or a replica changed its phase so that its group may grow again


class PodPlacement(NamedTuple):
    node: str
    requests: PodRequests


class ClusterNodeUsage:
    def __init__(self, shapes: PodShapeCache) -> None:
        self.pending: dict[str, ClusterPod] = {}  # unscheduled pods by uid
        self.terminating: dict[str, ClusterPod] = {}  # scheduled pods that are being deleted, by uid
        self.placements: dict[str, PodPlacement] = {}  # the node and the requests of each scheduled pod, by uid
        self.used_by_node: dict[str, dict[str, int]] = {}
        self.requested_by_namespace: dict[str, dict[str, int]] = {}
        """Requests of all unfinished pods by namespace, scheduled or not."""
        self._shapes = shapes
        self._pods_by_job: dict[str, dict[tuple[str, int], ClusterPod]] = {}
        self._requests_by_pod: dict[str, tuple[str, PodRequests]] = {}

    def pods_of_job(self, job_uid: str) -> Mapping[tuple[str, int], ClusterPod]:
        """Return the pods of a job by group label and index."""
        return self._pods_by_job.get(job_uid, _NO_PODS)

    def apply_pod_change(self, old: ClusterPod | None, new: ClusterPod | None) -> ClusterChange:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            change = self._remove_pod(old)
            return change if new is None else max(change, self._upsert_pod(None, new), key=lambda each: each.value)
        return ClusterChange.NONE if new is None else self._upsert_pod(old, new)

    def soon_freed_pods(self, now: datetime) -> Iterable[ClusterPod]:
        """Yield terminating pods that are not overdue: their resources count as free."""
        for pod in self.terminating.values():
            due = pod.metadata.deletion_timestamp
            if due is not None and now < due + OVERDUE_TERMINATION_GRACE:
                yield pod

    def _upsert_pod(self, old: ClusterPod | None, new: ClusterPod) -> ClusterChange:
        uid, spec = new.metadata.uid, new.spec
        requests = self._shapes.requests_of(spec)
        placement = PodPlacement(spec.node_name, requests) if spec.node_name and not new.is_finished else None
        before = self.placements.get(uid)
        if placement != before:
            self._move_placement(uid, before, placement)
        self._set_requests(uid, new.metadata.namespace, None if new.is_finished else requests)
        was_waiting = uid in self.pending
        _add_or_discard(self.pending, new, new.is_pending)
        _add_or_discard(self.terminating, new, new.is_terminating and placement is not None)
        if (replica_key := _replica_key(new)) is not None:
            owner, key = replica_key
            self._pods_by_job.setdefault(owner, {})[key] = new
        if new.is_pending and (not was_waiting or old is None or _pending_state(old) != _pending_state(new)):
            return ClusterChange.DEMAND
        if old is not None and old.status.phase != new.status.phase and replica_key is not None:
            return ClusterChange.DEMAND
        has_changed = (
            old is None
            or (placement, was_waiting) != (before, new.is_pending)
            or old.is_terminating != new.is_terminating
        )
        return ClusterChange.CAPACITY if has_changed else ClusterChange.NONE

    def _remove_pod(self, pod: ClusterPod) -> ClusterChange:
        uid = pod.metadata.uid
        before = self.placements.get(uid)
        was_waiting = self.pending.pop(uid, None) is not None
        self.terminating.pop(uid, None)
        self._move_placement(uid, before, None)
        self._set_requests(uid, pod.metadata.namespace, None)
        if (replica_key := _replica_key(pod)) is not None:
            owner, key = replica_key
            replicas = self._pods_by_job.get(owner, {})
            if key in replicas and replicas[key].metadata.uid == uid:
                del replicas[key]
            if not replicas:
                self._pods_by_job.pop(owner, None)
        return ClusterChange.CAPACITY if before is not None or was_waiting else ClusterChange.NONE

    def _move_placement(self, pod_uid: str, before: PodPlacement | None, after: PodPlacement | None) -> None:
        if before is not None:
            _add_requests(self.used_by_node, before.node, before.requests, -1)
            del self.placements[pod_uid]
        if after is not None:
            _add_requests(self.used_by_node, after.node, after.requests, 1)
            self.placements[pod_uid] = after

    def _set_requests(self, pod_uid: str, namespace: str, requests: PodRequests | None) -> None:
        before = self._requests_by_pod.get(pod_uid)
        if before is not None and before[1] is not requests:
            _add_requests(self.requested_by_namespace, before[0], before[1], -1)
            del self._requests_by_pod[pod_uid]
        if requests is not None and (before is None or before[1] is not requests):
            _add_requests(self.requested_by_namespace, namespace, requests, 1)
            self._requests_by_pod[pod_uid] = namespace, requests


def owning_job_uid(pod: ClusterPod | None) -> str:
    replica_key = _replica_key(pod) if pod is not None else None
    return replica_key[0] if replica_key else ""


def _replica_key(pod: ClusterPod) -> tuple[str, tuple[str, int]] | None:
    label, owner = pod.metadata.labels, pod.owner
    if owner is None or not label.group or not label.index.isdecimal():
        return None
    return owner.uid, (label.group, int(label.index))


def _pending_state(pod: ClusterPod) -> tuple[bool, bool]:
    return pod.is_pending, pod.is_blocked_by_constraints


def _add_or_discard(pods: dict[str, ClusterPod], pod: ClusterPod, belongs: bool) -> None:
    if belongs:
        pods[pod.metadata.uid] = pod
    else:
        pods.pop(pod.metadata.uid, None)


def _add_requests(totals: dict[str, dict[str, int]], key: str, requests: PodRequests, sign: int) -> None:
    total = totals.setdefault(key, {})
    for name, requested in requests:
        amount = total.get(name, 0) + sign * requested
        if amount:
            total[name] = amount
        else:
            total.pop(name, None)
    if not total:
        del totals[key]
