"""The parts of a pod that say where it may go and what it needs there."""

from __future__ import annotations

import msgspec

from pliant.kube.quantity import Quantity


class _SchedulingPart(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class ResourceRequirements(_SchedulingPart, frozen=True):
    """What a container asks of its node."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class SchedulingContainer(_SchedulingPart, frozen=True):
    """A container as far as its node's room is concerned."""

    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    """Always: an init container that goes on running beside the others."""


class Toleration(_SchedulingPart, frozen=True):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(_SchedulingPart, frozen=True):
    """What must be true of one label, or of the name."""

    key: str
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(_SchedulingPart, frozen=True):
    """What must be true of a node, all of it."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(_SchedulingPart, frozen=True):
    """Terms of which one is enough."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(_SchedulingPart, frozen=True):
    """What makes a node better than others, and by how much."""

    preference: NodeSelectorTerm = NodeSelectorTerm()
    weight: int = 0


class NodeAffinity(_SchedulingPart, frozen=True):
    """Which nodes a pod insists on, and which it prefers."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_SchedulingPart, frozen=True):
    """What a pod wants to be near to; of it only nodes are looked at."""

    node_affinity: NodeAffinity = NodeAffinity()


class SchedulingPodSpec(_SchedulingPart, frozen=True):
    """Where a pod may run and what it needs there."""

    node_name: str = ""
    priority: int = 0
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[SchedulingContainer, ...] = ()
    init_containers: tuple[SchedulingContainer, ...] = ()
    overhead: dict[str, Quantity] = {}
    """What the pod itself costs beside its containers, where they run in a machine of their own."""

    @property
    def node_affinity(self) -> NodeAffinity:
        """Which nodes it insists on, and which it prefers."""
        return self.affinity.node_affinity
