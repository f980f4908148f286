"""Deployments, ReplicaSets and pods as their controllers see them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from pliant.kube.objects import ObjectMeta, OwnerReference, Pod
from pliant.kube.resources import Resource
from pliant.kube.scheduling.fit import TERMINAL_POD_PHASES

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
JOBS = Resource("batch", "v1", "jobs", "Job")

Object = dict[str, Any]
_MAX_DIGITS = 18


class WorkloadKey(NamedTuple):
    namespace: str
    name: str


class _SpecPart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base class with the decoding options."""


class ReplicaSetSpec(_SpecPart, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: Object = {}
    template: Object = {}


class ReplicaSet(_SpecPart, frozen=True):
    metadata: ObjectMeta
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: Object = {}

    @property
    def available_replicas(self) -> int:
        return int(self.status.get("availableReplicas") or 0)


class DeploymentStrategy(_SpecPart, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: Object = {}


class DeploymentSpec(_SpecPart, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    paused: bool = False
    progress_deadline_seconds: int = 600
    revision_history_limit: int = 10
    selector: Object = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    template: Object = {}


class Deployment(_SpecPart, frozen=True):
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: Object = {}


def parse_number(text: str) -> int | None:
    """Return the number that an annotation contains; None if it contains none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def key_of(metadata: ObjectMeta) -> WorkloadKey:
    return WorkloadKey(metadata.namespace, metadata.name)


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    return next((owner for owner in metadata.owner_references if owner.controller), None)


CONTROLLER_INDEX = "controller"


def index_by_controller(obj: Any) -> Iterator[str]:
    """Index an object by the UID of its controller, or as an orphan of its namespace."""
    controller = controller_of(obj.metadata)
    yield controller.uid if controller is not None else orphan_index_key(obj.metadata.namespace)


def orphan_index_key(namespace: str) -> str:
    return f"orphans/{namespace}"


def controller_reference(resource: Resource, metadata: ObjectMeta) -> Object:
    reference = {"apiVersion": resource.api_version, "kind": resource.kind, "name": metadata.name, "uid": metadata.uid}
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def is_active(pod: Pod) -> bool:
    """Return whether a pod is neither finished nor terminating."""
    return pod.status.phase not in TERMINAL_POD_PHASES and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    return pod.status.phase not in TERMINAL_POD_PHASES and pod.metadata.deletion_timestamp is not None


def ready_since(pod: Pod) -> datetime | None:
    """Return when a pod became ready; None if it is not ready."""
    ready = next((each for each in pod.status.conditions if each.type == "Ready" and each.status == "True"), None)
    return None if ready is None else ready.last_transition_time or pod.metadata.creation_timestamp


def time_until_available(pod: Pod, min_ready_seconds: int, now: datetime) -> timedelta | None:
    """Return how long a pod must stay ready until it is available, 0 if it is; None if it is not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return max(since + timedelta(seconds=min_ready_seconds) - now, timedelta(0)) if min_ready_seconds else timedelta(0)
