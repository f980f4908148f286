"""Pods and services as typed structs, with the fields that the scheduler, kubelet and pod network read."""

from __future__ import annotations

from typing import Any

import msgspec

from pliant.kube.objects import Condition, ObjectMeta
from pliant.kube.scheduling.fit import TERMINAL_POD_PHASES
from pliant.kube.scheduling.types import SchedulingContainer, SchedulingPodSpec


class _ViewStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class PodObjectMeta(ObjectMeta, frozen=True):
    deletion_grace_period_seconds: int | None = None


class ContainerPortView(_ViewStruct, frozen=True):
    name: str = ""
    container_port: int = 0


class ContainerView(SchedulingContainer, frozen=True):
    ports: tuple[ContainerPortView, ...] = ()


class PodSpecView(SchedulingPodSpec, frozen=True):
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[Any, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()
    ephemeral_containers: tuple[ContainerView, ...] = ()


class PodStatusView(_ViewStruct, frozen=True):
    phase: str = "Pending"
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()


class PodView(_ViewStruct, frozen=True):
    metadata: PodObjectMeta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

    @property
    def is_finished(self) -> bool:
        return self.status.phase in TERMINAL_POD_PHASES

    @property
    def is_ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class ServicePortView(_ViewStruct, frozen=True):
    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: int | str = 0


class ServiceSpecView(_ViewStruct, frozen=True):
    selector: dict[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    session_affinity: str = "None"
    ports: tuple[ServicePortView, ...] = ()
    publish_not_ready_addresses: bool = False


class ServiceView(_ViewStruct, frozen=True):
    metadata: ObjectMeta
    spec: ServiceSpecView = ServiceSpecView()


def pod_hostname(pod: PodView) -> str:
    """Return the hostname of a pod, cut to 63 characters: the kernel allows 64."""
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")
