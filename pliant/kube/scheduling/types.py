"""The fields of a pod that determine which nodes accept it."""

from __future__ import annotations

import msgspec

from pliant.schemas.quantity import Quantity


class _SchedulingPart(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Base class with the decoding options."""


class ResourceRequirements(_SchedulingPart, frozen=True):
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class SchedulingContainer(_SchedulingPart, frozen=True):
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # `Always`: a sidecar, which keeps running beside the main containers


class Toleration(_SchedulingPart, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(_SchedulingPart, frozen=True):
    key: str
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(_SchedulingPart, frozen=True):
    """A node must match all expressions and fields."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(_SchedulingPart, frozen=True):
    """A node must match one of the terms."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(_SchedulingPart, frozen=True):
    preference: NodeSelectorTerm = NodeSelectorTerm()
    weight: int = 0


class NodeAffinity(_SchedulingPart, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_SchedulingPart, frozen=True):
    node_affinity: NodeAffinity = NodeAffinity()


class SchedulingPodSpec(_SchedulingPart, frozen=True):
    node_name: str = ""
    priority: int = 0
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[SchedulingContainer, ...] = ()
    init_containers: tuple[SchedulingContainer, ...] = ()
    overhead: dict[str, Quantity] = {}  # requests of the pod sandbox itself

    @property
    def node_affinity(self) -> NodeAffinity:
        return self.affinity.node_affinity
