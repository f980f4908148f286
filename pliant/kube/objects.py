"""The fields of Kubernetes objects that Pliant reads; decoding skips all others.

Objects are immutable trees without cycles, so the garbage collector need not track them (`gc=False`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from pliant.kube.scheduling.types import Toleration


class _ObjectPart(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True):
    """Base class with the decoding options."""


class OwnerReference(_ObjectPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(_ObjectPart, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    finalizers: tuple[str, ...] = ()


class Condition(_ObjectPart, frozen=True):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerWaiting(_ObjectPart, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerRunning(_ObjectPart, frozen=True):
    started_at: datetime | None = None


class ContainerTerminated(_ObjectPart, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(_ObjectPart, frozen=True):
    """At most one of the fields is set."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class DeviceHealth(_ObjectPart, frozen=True):
    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = "Unknown"


class AllocatedResource(_ObjectPart, frozen=True):
    """The devices of one resource that the kubelet allocated to a container."""

    name: str
    resources: tuple[DeviceHealth, ...] = ()


class ContainerStatus(_ObjectPart, frozen=True):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: int = 0
    ready: bool = False
    allocated_resources_status: tuple[AllocatedResource, ...] = ()


class ContainerResources(_ObjectPart, frozen=True):
    requests: dict[str, int | float | str] = {}
    limits: dict[str, int | float | str] = {}


class Container(_ObjectPart, frozen=True):
    name: str
    resources: ContainerResources = ContainerResources()


class PodSpec(_ObjectPart, frozen=True):
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodStatus(_ObjectPart, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_ObjectPart, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ServicePort(_ObjectPart, frozen=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(_ObjectPart, frozen=True):
    selector: dict[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()


class Service(_ObjectPart, frozen=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(_ObjectPart, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class DisruptionBudget(_ObjectPart, frozen=True):
    metadata: ObjectMeta


class Taint(_ObjectPart, frozen=True):
    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(_ObjectPart, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(_ObjectPart, frozen=True):
    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class Node(_ObjectPart, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


ObjectKey = tuple[str, str]
"""Namespace and name. A plain tuple of strings, which the garbage collector untracks."""


class ObjectIdentity(NamedTuple):
    """Identifies one incarnation of an object and its version."""

    key: ObjectKey
    uid: str
    version: int


def object_identity(obj: Any) -> ObjectIdentity:
    """Return the identity of a struct or dict; resource versions compare as numbers."""
    if isinstance(obj, dict):
        raw = obj["metadata"]
        key = (raw.get("namespace", ""), raw["name"])
        return ObjectIdentity(key, raw.get("uid", ""), int(raw.get("resourceVersion") or 0))
    meta: ObjectMeta = obj.metadata
    return ObjectIdentity((meta.namespace, meta.name), meta.uid, int(meta.resource_version or 0))
