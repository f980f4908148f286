"""What the master knows of its job, and what it may ask for: the words that its parts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

MIB = 1024**2


class NodeKey(NamedTuple):
    """A member for as long as its pod lives; its rank outlives it. Prints as `worker-3`."""

    type: str
    id: int

    def __str__(self) -> str:
        return f"{self.type}-{self.id}"


class NodeStatus(StrEnum):
    """How far a member has come."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    LOST = "Lost"
    """Its pod is gone, or leaving, though nobody of ours sent it away."""


class Stage(StrEnum):
    """How much is known of a job, and so what is asked for next."""

    CREATE = "create"
    WORKER_INITIAL = "worker-initial"
    PS_INITIAL = "ps-initial"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one pod asks for; None where nobody has said."""

    cpu: float | None = None
    """Cores."""
    memory: int | None = None
    """Bytes."""
    others: Mapping[str, str] = field(default_factory=dict)
    """GPUs and the like, as the user wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
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
class Node:
    """A member as its pod shows it."""

    key: NodeKey
    rank: int
    pod: str
    """The name of its pod."""
    status: NodeStatus
    resources: Resources = field(default_factory=Resources)
    relaunches: int = 0
    """How often this rank was made anew."""
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    """The cluster's word for its end, `OOMKilled`, or for why it does not start."""
    host: str = ""
    """The machine it sits on."""
    address: str = ""
    """`host:port` by which others reach it."""
    beat: Beat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """What the ElasticJob says of one type of member; None where it leaves the choice to the master."""

    type: str
    replicas: int | None = None
    least: int = 0
    most: int | None = None
    resources: Resources = field(default_factory=Resources)
    may_scale: bool = True
    """Whether its author lets the master change what he wrote (`autoScale`)."""
    restart_limit: int = 3
    by_hand: int | None = None
    """How many there are by a person's word, if that is the latest: an edit, `kubectl scale`, a plan."""
    asked: int | None = None
    """How many there are to be by the operator's own memory, whoever asked for them."""
    restarts_always: bool = False
    """Whether its author has it start again whatever it says of its failure (`restartPolicy: Always`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the ElasticJob says, as far as the master is concerned."""

    namespace: str
    name: str
    uid: str
    strategy: str
    """`ParameterServerStrategy` or `AllreduceStrategy`."""
    limits: Resources
    """Of all members together (`resourceLimits`)."""
    roles: Mapping[str, RoleSpec]
    is_suspended: bool = False
    is_tuned: bool = True
    """Whether sizes may be sought at all (`optimizeMode`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything the next step is decided upon."""

    now: datetime
    job: JobFacts
    nodes: tuple[Node, ...]
    """All members that have not been sent away, those that ended included."""
    speeds: Mapping[int, float] = field(default_factory=dict)
    """Samples per second of all workers together, by how many there were, each measured over a settled while."""
    work_left: int | None = None
    """Shards that nobody has taken yet; None if the job uses none."""
    is_work_done: bool = False
    """Whether all shards of all data sets are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How many members of a type there are to be, and what each asks for."""

    replicas: int
    resources: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPod:
    """A member to be made: a new id at a rank."""

    key: NodeKey
    rank: int
    resources: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change to the job: becomes one ScalePlan."""

    reason: str
    """In words for people: `worker-1 ran out of memory: from 1.0 to 2.0 GiB`."""
    stage: Stage
    replicas: Mapping[str, Wanted] = field(default_factory=dict)
    create: tuple[NewPod, ...] = ()
    remove: tuple[NodeKey, ...] = ()
    migrate: tuple[NewPod, ...] = ()
    """Replacements: the member now at that rank goes once the new one runs."""
    ps_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The job is over as far as its members are concerned."""

    has_succeeded: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ParameterServers:
    """A set of parameter servers, in cluster order."""

    version: int = 0
    hosts: tuple[str, ...] = ()
