"""The parts of pods, services and nodes that scheduling, running and naming look at."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pliant.kube.objects import Condition, ObjectMeta
from pliant.kube.scheduling.fit import TERMINAL_PHASES
from pliant.kube.scheduling.types import SchedulingContainer, SchedulingPodSpec


class _ViewStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class PodObjectMeta(ObjectMeta, frozen=True):
    """Metadata with what a kubelet needs for an end in good order."""

    deletion_grace_period_seconds: int | None = None


class ContainerPortView(_ViewStruct, frozen=True):
    """A port that a container says it listens on."""

    name: str = ""
    container_port: int = 0


class ContainerView(SchedulingContainer, frozen=True):
    """A container as far as schedulers and services look."""

    ports: tuple[ContainerPortView, ...] = ()


class PodSpecView(SchedulingPodSpec, frozen=True):
    """Where a pod may run, what it needs there, and what it is called."""

    scheduler_name: str = "default-scheduler"
    hostname: str = ""
    subdomain: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()


class PodStatusView(_ViewStruct, frozen=True):
    """How a pod fares."""

    phase: str = "Pending"
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()


class PodView(_ViewStruct, frozen=True):
    """A pod."""

    metadata: PodObjectMeta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it runs or ever will."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def is_ready(self) -> bool:
        """Whether it says so."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class ServicePortView(_ViewStruct, frozen=True):
    """A port of a service, and the port of its pods, by number or name, that it leads to."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: int | str = 0


class ServiceSpecView(_ViewStruct, frozen=True):
    """For which pods a service stands, and where it is found."""

    selector: dict[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    session_affinity: str = "None"
    ports: tuple[ServicePortView, ...] = ()
    publish_not_ready_addresses: bool = False


class ServiceView(_ViewStruct, frozen=True):
    """A service."""

    metadata: ObjectMeta
    spec: ServiceSpecView = ServiceSpecView()


def pod_hostname(pod: PodView) -> str:
    """What a pod calls itself; the kernel allows 64 characters."""
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def index_by_namespace(pod: PodView) -> Iterable[str]:
    """Files a pod under its namespace."""
    return (pod.metadata.namespace,)
