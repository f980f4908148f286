"""A cluster as policies see it: nodes, groups that may change their size, and everybody who waits for room.

Plain values and no clock. The controller makes them from what the API server tells, the simulator from what it
makes up; policies do not know which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

ResourceAmounts = Mapping[str, int]
"""Resources by name: `cpu` in thousandths of a core, everything else in its own unit (bytes, devices, `pods`)."""


class GroupKey(NamedTuple):
    """Which group of which job; the order of keys breaks ties."""

    namespace: str
    kind: str
    """With its API group, as several groups have a kind of the same name: `PaddleJob.paddlepaddle.org`."""
    job: str
    group: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}/{self.group}"


@dataclass(frozen=True, slots=True)
class PodShape:
    """What one pod takes up, and where it may go; many pods share one."""

    requests: tuple[tuple[str, int], ...]
    """Resources and amounts, sorted by name, none of them 0."""
    allowed_nodes: frozenset[str] | None = None
    """The nodes that would take it if they had room; None for all that are open."""

    @classmethod
    def of(cls, requests: ResourceAmounts, allowed_nodes: frozenset[str] | None = None) -> PodShape:
        """The shape of a pod with these needs."""
        return cls(tuple(sorted((name, amount) for name, amount in requests.items() if amount)), allowed_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResources:
    """A machine."""

    name: str
    allocatable: ResourceAmounts
    """All there is for pods (allocatable)."""
    used_by_others: ResourceAmounts = field(default_factory=dict)
    """What is used by pods that are no members of any `Elastic` below: of other jobs, services, daemons."""
    is_schedulable: bool = True
    """Whether it takes newcomers: not cordoned, and ready. Members that sit on a closed one stay there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticGroup:
    """A group whose size may be set."""

    key: GroupKey
    min_size: int
    max_size: int
    size: int
    """How many members it is to have at present."""
    shape: PodShape
    replica_nodes: tuple[str, ...] = ()
    """The node of each member by index, empty for one that waits; missing at the end where there is no pod yet.
    Whoever leaves first has the highest index."""
    priority: int = 0
    created_at: float = 0.0
    """When its job was made, in seconds; the older one comes first among equals."""
    may_grow: bool = True
    may_shrink: bool = True
    """Whether it may be made smaller for a better share; to let others in it always may, unless fixed."""
    is_fixed: bool = False
    """Whether its size must stay what it is: just edited by hand, about to end, not able to change."""
    restriction_reason: str = ""
    """Why it may not do what it may not."""
    throughputs: tuple[tuple[int, float], ...] = ()
    """Its throughput as measured at sizes it has had, in units of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPods:
    """Like pods that wait for room and are no members of any `Elastic`: of a service, of a job of fixed size."""

    key: str
    shape: PodShape
    count: int
    priority: int = 0
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Everything a policy may look at."""

    nodes: tuple[NodeResources, ...]
    groups: tuple[ElasticGroup, ...]
    pending_pods: tuple[PendingPods, ...] = ()
    quotas: Mapping[str, ResourceAmounts] = field(default_factory=dict)
    """What the members of all elastic groups of a namespace may take up together, where somebody set a limit."""
    max_load: float = 0.97
    """How much of all CPU and memory may be given away, as a part of 1; devices may be to the last."""


class SizeReason(StrEnum):
    """Kinds of reasons for a size."""

    SCALE_UP = "Grows"
    """There is room."""
    PREEMPTED = "GivesWay"
    """Somebody waits who comes first."""
    REBALANCED = "Shares"
    """Others have less."""
    NOT_WORTHWHILE = "NotWorthIt"
    """More members would not make it fast enough to be worth their room."""
    NO_CAPACITY = "NoRoom"
    """More would not fit."""
    QUOTA_EXHAUSTED = "Quota"
    AT_MAX_SIZE = "AtMost"
    AT_MIN_SIZE = "AtLeast"
    FIXED = "Fixed"
    STABILIZING = "Settling"
    """It has been resized a moment ago, or its members are still coming up."""


class SizeDecision(NamedTuple):
    """The size a group should have, and why."""

    size: int
    reason: SizeReason
    message: str
    """A clause that ends a sentence: `4 more fit`, `default/nginx waits for 400 pods of 3 CPU`."""


SizePlan = Mapping[GroupKey, SizeDecision]
"""A verdict on every elastic group of a cluster."""


class Policy(Protocol):
    """A way to share a cluster. The same picture always gives the same plan, whatever order it is drawn in."""

    @property
    def name(self) -> str:
        """The word users write to choose it, in lower case."""

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        """The size of every group: within its bounds as far as it is in our hands, and within what fits.

        A plan that was carried out is its own answer: nothing changes the next time, if nothing else has. Now and
        then a group gives a place up first and has another one the next time; then there is an end to it.
        """
