"""The parts of Kubernetes objects that Pliant reads; all other fields are skipped while decoding.

Values are immutable trees, so the cyclic collector need not follow them (`gc=False`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec


class _ObjectPart(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True):
    """Shared decoding rules."""


class OwnerReference(_ObjectPart, frozen=True):
    """Who an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(_ObjectPart, frozen=True):
    """What every object carries."""

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
    """One aspect of an object's state."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerWaiting(_ObjectPart, frozen=True):
    """A container that has not started."""

    reason: str = ""
    message: str = ""


class ContainerRunning(_ObjectPart, frozen=True):
    """A container at work."""

    started_at: datetime | None = None


class ContainerTerminated(_ObjectPart, frozen=True):
    """A container that has ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(_ObjectPart, frozen=True):
    """Exactly one of these is set, or none when nothing is known yet."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(_ObjectPart, frozen=True):
    """How one container fares."""

    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: int = 0
    ready: bool = False


class ContainerResources(_ObjectPart, frozen=True):
    """What a container may use up."""

    limits: dict[str, int | float | str] = {}


class Container(_ObjectPart, frozen=True):
    """A container as asked for."""

    name: str
    resources: ContainerResources = ContainerResources()


class PodSpec(_ObjectPart, frozen=True):
    """Where a pod runs and what in it."""

    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodStatus(_ObjectPart, frozen=True):
    """How a pod fares."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_ObjectPart, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ServicePort(_ObjectPart, frozen=True):
    """A port that a service offers."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(_ObjectPart, frozen=True):
    """Which pods a service stands for."""

    selector: dict[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()


class Service(_ObjectPart, frozen=True):
    """A service."""

    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(_ObjectPart, frozen=True):
    """A ConfigMap, whose content is for others to read."""

    metadata: ObjectMeta


class Taint(_ObjectPart, frozen=True):
    """A mark on a node that keeps pods away."""

    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(_ObjectPart, frozen=True):
    """What a node accepts."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(_ObjectPart, frozen=True):
    """What a node has and how it fares."""

    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class Node(_ObjectPart, frozen=True):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


ObjectKey = tuple[str, str]
"""Namespace and name: which object, whatever its incarnation. A plain tuple, which the collector lets go of."""


class ObjectIdentity(NamedTuple):
    """Which incarnation of an object, and which version of it."""

    key: ObjectKey
    uid: str
    version: int


def object_identity(obj: Any) -> ObjectIdentity:
    """Tell objects apart, decoded as structs or as dicts; versions of one resource compare as numbers."""
    if isinstance(obj, dict):
        raw = obj["metadata"]
        return ObjectIdentity(
            (raw.get("namespace", ""), raw["name"]), raw.get("uid", ""), int(raw.get("resourceVersion") or 0)
        )
    meta: ObjectMeta = obj.metadata
    return ObjectIdentity((meta.namespace, meta.name), meta.uid, int(meta.resource_version or 0))
