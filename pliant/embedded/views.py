"""The parts of pods, services and nodes that scheduling, running and naming look at."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pliant.embedded.amounts import Amount
from pliant.kube.objects import Condition, ObjectMeta

FINISHED = frozenset({"Succeeded", "Failed"})


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class PodMeta(ObjectMeta, frozen=True):
    """Metadata with what a kubelet needs for an end in good order."""

    deletion_grace_period_seconds: int | None = None


class Needs(_Part, frozen=True):
    """What a container asks of its node."""

    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}


class ContainerPort(_Part, frozen=True):
    """A port that a container says it listens on."""

    name: str = ""
    container_port: int = 0


class ContainerView(_Part, frozen=True):
    """A container as far as schedulers and services look."""

    resources: Needs = Needs()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    """Always: an init container that goes on running beside the others."""


class Toleration(_Part, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Requirement(_Part, frozen=True):
    """What must be true of one label, or of the name."""

    key: str
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeTerm(_Part, frozen=True):
    """What must be true of a node, all of it."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeTerms(_Part, frozen=True):
    """Terms of which one is enough."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class Preference(_Part, frozen=True):
    """What makes a node better than others, and by how much."""

    preference: NodeTerm = NodeTerm()
    weight: int = 0


class NodeAffinity(_Part, frozen=True):
    """Which nodes a pod insists on, and which it prefers."""

    required: NodeTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[Preference, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Part, frozen=True):
    """What a pod wants to be near to; of it only nodes are looked at."""

    node_affinity: NodeAffinity = NodeAffinity()


class PodSpecView(_Part, frozen=True):
    """Where a pod may run and what it needs there."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    hostname: str = ""
    subdomain: str = ""
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()

    @property
    def node_affinity(self) -> NodeAffinity:
        """Which nodes it insists on, and which it prefers."""
        return self.affinity.node_affinity


class PodStatusView(_Part, frozen=True):
    """How a pod fares."""

    phase: str = "Pending"
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()


class PodView(_Part, frozen=True):
    """A pod."""

    metadata: PodMeta
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it runs or ever will."""
        return self.status.phase in FINISHED

    @property
    def is_ready(self) -> bool:
        """Whether it says so."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class ServicePort(_Part, frozen=True):
    """A port of a service, and the port of its pods, by number or name, that it leads to."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: int | str = 0


class ServiceSpecView(_Part, frozen=True):
    """For which pods a service stands, and where it is found."""

    selector: dict[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    session_affinity: str = "None"
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False


class ServiceView(_Part, frozen=True):
    """A service."""

    metadata: ObjectMeta
    spec: ServiceSpecView = ServiceSpecView()


def host_name(pod: PodView) -> str:
    """What a pod calls itself; the kernel allows 64 characters."""
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def in_namespace(pod: PodView) -> Iterable[str]:
    """Files a pod under its namespace."""
    return (pod.metadata.namespace,)
