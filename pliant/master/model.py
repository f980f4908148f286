"""The data types that the parts of the master share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from pliant.errors import UserError

MIB = 1024**2


class MasterBusy(UserError):
    """The master serves as many processes or waiting requests as it can."""


class MemberKey(NamedTuple):
    """Identifies a member and its pod; a relaunch gets a new id at the same rank. Prints as `worker-3`."""

    type: str
    id: int

    def __str__(self) -> str:
        return f"{self.type}-{self.id}"


class MemberSlot(NamedTuple):
    """A rank of a member type, whichever member occupies it. Prints as `worker/3`."""

    type: str
    rank: int

    def __str__(self) -> str:
        return f"{self.type}/{self.rank}"


class MemberStatus(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    LOST = "Lost"  # the pod is gone or terminating, and the master did not remove it


class SizingStage(StrEnum):
    """What the master sizes next: it measures usage of the workers, then of the parameter servers."""

    CREATE = "create"
    WORKER_INITIAL = "worker-initial"
    PS_INITIAL = "ps-initial"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """CPU in cores and memory in bytes of one pod; None where they are not specified."""

    cpu: float | None = None
    memory: int | None = None
    extended_resources: Mapping[str, str] = field(default_factory=dict)  # GPUs and the like, as the user wrote them


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The latest report of a member: total samples, and usage in cores and bytes, summed over its processes."""

    at: datetime
    step: int | None = None
    samples: float | None = None
    cpu: float | None = None
    memory: int | None = None
    ps_version: int | None = None  # the version of the parameter server set that the member uses


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMember:
    key: MemberKey
    rank: int
    pod_name: str
    status: MemberStatus
    resources: PodResources = field(default_factory=PodResources)
    memory_limit: int | None = None  # may be above the requested memory
    relaunches: int = 0
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""  # why it ended, such as `OOMKilled`, or why it does not start
    node_name: str = ""
    address: str = ""  # `host:port` for other members
    heartbeat: Heartbeat | None = None

    @property
    def slot(self) -> MemberSlot:
        return MemberSlot(self.key.type, self.rank)

    @property
    def usable_memory(self) -> int | None:
        return self.memory_limit or self.resources.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterRoleSpec:
    """The spec of one member type in the ElasticJob; None where the master chooses."""

    type: str
    replicas: int | None = None
    min_size: int = 0
    max_size: int | None = None
    resources: PodResources = field(default_factory=PodResources)
    may_scale: bool = True  # whether the master may change the spec (`autoScale`)
    restart_limit: int = 3
    user_requested_size: int | None = None
    """The size that a user requested (an edit, `kubectl scale` or a manual plan), if that is the latest request."""
    operator_applied_size: int | None = None  # the size that the operator applies, from the engine state
    restarts_always: bool = False  # whether a failure reported by the program is retried (`restartPolicy: Always`)


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterJobSpec:
    namespace: str
    name: str
    uid: str
    strategy: str  # `ParameterServerStrategy` or `AllreduceStrategy`
    resource_limits: PodResources  # limits of all members together (`resourceLimits`)
    roles: Mapping[str, MasterRoleSpec]
    is_suspended: bool = False
    allows_tuning: bool = True  # whether the master may choose sizes at all (`optimizeMode`)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    now: datetime
    job: MasterJobSpec
    members: tuple[JobMember, ...]  # all members that have a pod, including ended ones
    speed_by_worker_count: Mapping[int, float] = field(default_factory=dict)
    """Measured samples per second of all workers, by number of workers."""
    unassigned_shard_count: int | None = (
        None  # shards that are neither assigned nor done; None if the job uses no shards
    )
    are_shards_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSizing:
    replicas: int
    resources: PodResources


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPodRequest:
    key: MemberKey
    rank: int
    resources: PodResources


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleAction:
    """One change to the job, sent to the operator as a ScalePlan."""

    reason: str  # the message for users: `worker-1 ran out of memory: from 1.0 to 2.0 GiB`
    stage: SizingStage
    sizing_by_type: Mapping[str, ReplicaSizing] = field(default_factory=dict)
    create_pods: tuple[MemberPodRequest, ...] = ()
    remove_members: tuple[MemberKey, ...] = ()
    migrate_pods: tuple[MemberPodRequest, ...] = ()
    """Replacements: the present member of the rank is removed once the new one runs."""
    ps_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompletion:
    has_succeeded: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ParameterServerSet:
    version: int = 0
    hosts: tuple[str, ...] = ()
