"""The input and output of policies: nodes, elastic groups, pending pods and size decisions.

Plain values without a clock. The controller builds them from API objects, the simulator from simulated ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

ResourceAmounts = Mapping[str, int]
"""Amounts by resource name: `cpu` in millicores, all others in their own unit (bytes, devices, `pods`)."""


class GroupKey(NamedTuple):
    """A group of a job; the order of keys breaks ties."""

    namespace: str
    kind: str  # with its API group, as kinds of the same name exist in several groups: `PaddleJob.paddlepaddle.org`
    job: str
    group: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}/{self.group}"


@dataclass(frozen=True, slots=True)
class PodShape:
    """The requests and the allowed nodes of a pod; many pods share one shape."""

    requests: tuple[tuple[str, int], ...]  # resources and amounts, sorted by name, none of them 0
    allowed_nodes: frozenset[str] | None = None
    """The nodes whose taints and labels it accepts; None for all schedulable nodes."""

    @classmethod
    def of(cls, requests: ResourceAmounts, allowed_nodes: frozenset[str] | None = None) -> PodShape:
        return cls(tuple(sorted((name, amount) for name, amount in requests.items() if amount)), allowed_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResources:
    name: str
    allocatable: ResourceAmounts
    used_by_others: ResourceAmounts = field(default_factory=dict)
    """Requests of pods that belong to no elastic group of the snapshot."""
    is_schedulable: bool = True
    """Whether it accepts new pods: it is ready and not cordoned. Pods that run on it stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticGroup:
    """A group whose size the autoscaler sets."""

    key: GroupKey
    min_size: int
    max_size: int
    size: int  # the current desired size
    shape: PodShape
    replica_nodes: tuple[str, ...] = ()
    """The node of each replica by index; empty while unscheduled, missing at the end where no pod exists yet.
    Groups shrink from the highest index."""
    priority: int = 0
    created_at: float = 0.0  # when its job was created, in seconds; the older one wins ties
    may_grow: bool = True
    may_shrink: bool = True
    """Whether it may shrink for a better distribution; for pending pods it always may, unless it is fixed."""
    is_fixed: bool = False  # whether its size must not change: just edited by a user, finishing, or not resizable
    restriction_reason: str = ""  # why it may not grow or shrink
    throughputs: tuple[tuple[int, float], ...] = ()
    """Measured throughputs as (size, throughput), in units of the job's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPods:
    """Pending pods of one shape that belong to no elastic group."""

    key: str
    shape: PodShape
    count: int
    priority: int = 0
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Everything that a policy knows."""

    nodes: tuple[NodeResources, ...]
    groups: tuple[ElasticGroup, ...]
    pending_pods: tuple[PendingPods, ...] = ()
    quotas: Mapping[str, ResourceAmounts] = field(default_factory=dict)
    """What all elastic groups of a namespace may use together, where there is a quota."""
    max_load: float = 0.97
    """The fraction of total CPU and memory that may be allocated; devices may be allocated completely."""


class SizeReason(StrEnum):
    """Why a group has its size; shown in statuses and metrics."""

    SCALE_UP = "ScaleUp"
    PREEMPTED = "Preempted"  # it makes room for pending pods of higher or equal priority
    REBALANCED = "Rebalanced"  # other groups have less
    NOT_WORTHWHILE = "NotWorthwhile"  # more replicas would not increase throughput enough
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    QUOTA_EXCEEDED = "QuotaExceeded"
    AT_MAX_SIZE = "AtMaxSize"
    AT_MIN_SIZE = "AtMinSize"
    FIXED = "Fixed"
    STABILIZING = "Stabilizing"  # it was resized recently, or its replicas are still starting


class SizeDecision(NamedTuple):
    size: int
    reason: SizeReason
    message: str  # a clause such as `4 more fit` or `no node has 5 CPU free`


SizePlan = Mapping[GroupKey, SizeDecision]  # a decision on every elastic group of a cluster


class Policy(Protocol):
    """Distributes a cluster. Equal snapshots give equal plans, whatever the order of their elements."""

    name: str  # the name by which users select it, in lower case

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        """Return the size of every group: within its bounds and within what fits.

        Plans converge: once a plan is applied and nothing else changes, the next plans soon change nothing.
        """
