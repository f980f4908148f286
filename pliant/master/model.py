"""What the master knows of its job, and what it may ask for: the words that its parts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

MIB = 1024**2


class MemberKey(NamedTuple):
    """A member for as long as its pod lives; its rank outlives it. Prints as `worker-3`."""

    type: str
    id: int

    def __str__(self) -> str:
        return f"{self.type}-{self.id}"


class MemberStatus(StrEnum):
    """How far a member has come."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    LOST = "Lost"
    """Its pod is gone, or leaving, though nobody of ours sent it away."""


class SizingStage(StrEnum):
    """How much is known of a job, and so what is asked for next."""

    CREATE = "create"
    WORKER_INITIAL = "worker-initial"
    PS_INITIAL = "ps-initial"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What one pod asks for; None where nobody has said."""

    cpu: float | None = None
    """Cores."""
    memory: int | None = None
    """Bytes."""
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    """GPUs and the like, as the user wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The latest that a member has said of itself."""

    at: datetime
    step: int | None = None
    samples: float | None = None
    """Records it has learned from, all in all."""
    cpu: float | None = None
    """Cores in use."""
    memory: int | None = None
    """Bytes in use."""
    ps_version: int | None = None
    """The set of parameter servers that it works with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMember:
    """A member as its pod shows it."""

    key: MemberKey
    rank: int
    pod_name: str
    """The name of its pod."""
    status: MemberStatus
    resources: PodResources = field(default_factory=PodResources)
    relaunches: int = 0
    """How often this rank was made anew."""
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    """The cluster's word for its end, `OOMKilled`, or for why it does not start."""
    node_name: str = ""
    """The machine it sits on."""
    address: str = ""
    """`host:port` by which others reach it."""
    heartbeat: Heartbeat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterRoleSpec:
    """What the ElasticJob says of one type of member; None where it leaves the choice to the master."""

    type: str
    replicas: int | None = None
    min_size: int = 0
    max_size: int | None = None
    resources: PodResources = field(default_factory=PodResources)
    may_scale: bool = True
    """Whether its author lets the master change what he wrote (`autoScale`)."""
    restart_limit: int = 3
    user_requested_size: int | None = None
    """How many there are by a person's word, if that is the latest: an edit, `kubectl scale`, a plan."""
    operator_requested_size: int | None = None
    """How many there are to be by the operator's own memory, whoever asked for them."""
    restarts_always: bool = False
    """Whether its author has it start again whatever it says of its failure (`restartPolicy: Always`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterJobSpec:
    """What the ElasticJob says, as far as the master is concerned."""

    namespace: str
    name: str
    uid: str
    strategy: str
    """`ParameterServerStrategy` or `AllreduceStrategy`."""
    resource_limits: PodResources
    """Of all members together (`resourceLimits`)."""
    roles: Mapping[str, MasterRoleSpec]
    is_suspended: bool = False
    allows_tuning: bool = True
    """Whether sizes may be sought at all (`optimizeMode`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """Everything the next step is decided upon."""

    now: datetime
    job: MasterJobSpec
    members: tuple[JobMember, ...]
    """All members that have not been sent away, those that ended included."""
    speed_by_workers: Mapping[int, float] = field(default_factory=dict)
    """Samples per second of all workers together, by how many there were, each measured over a settled while."""
    shards_left: int | None = None
    """Shards that nobody has taken yet; None if the job uses none."""
    are_shards_done: bool = False
    """Whether all shards of all data sets are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSizing:
    """How many members of a type there are to be, and what each asks for."""

    replicas: int
    resources: PodResources


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPodRequest:
    """A member to be made: a new id at a rank."""

    key: MemberKey
    rank: int
    resources: PodResources


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleAction:
    """One change to the job: becomes one ScalePlan."""

    reason: str
    """In words for people: `worker-1 ran out of memory: from 1.0 to 2.0 GiB`."""
    stage: SizingStage
    sizing_by_type: Mapping[str, ReplicaSizing] = field(default_factory=dict)
    create_pods: tuple[MemberPodRequest, ...] = ()
    remove_members: tuple[MemberKey, ...] = ()
    migrate_pods: tuple[MemberPodRequest, ...] = ()
    """Replacements: the member now at that rank goes once the new one runs."""
    ps_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompletion:
    """The job is over as far as its members are concerned."""

    has_succeeded: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ParameterServerSet:
    """A set of parameter servers, in cluster order."""

    version: int = 0
    hosts: tuple[str, ...] = ()
