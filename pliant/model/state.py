"""The engine state of a job, persisted in `status.pliant` between reconciliations."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from pliant.model.accepted_spec import AcceptedSpec
from pliant.model.departures import Departure, PublishedMembership
from pliant.model.messages import NO_MESSAGE, Message

Timestamp = Annotated[datetime, Meta(tz=True)]


class JobPhase(StrEnum):
    PENDING = "Pending"
    CREATING = "Creating"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    TERMINATING = "Terminating"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TIMEOUT = "Timeout"
    PREEMPTED = "Preempted"
    NODE_FAIL = "NodeFail"

    @property
    def is_final(self) -> bool:
        return self in FINAL_PHASES


FINAL_PHASES = frozenset({JobPhase.SUCCEED, JobPhase.FAILED, JobPhase.TIMEOUT, JobPhase.PREEMPTED, JobPhase.NODE_FAIL})

_ENDING_PHASES = frozenset({JobPhase.SUSPENDED, JobPhase.TERMINATING}) | FINAL_PHASES

PHASE_TRANSITIONS: dict[JobPhase, frozenset[JobPhase]] = {
    JobPhase.PENDING: frozenset({JobPhase.CREATING, JobPhase.RUNNING, JobPhase.RESTARTING}) | _ENDING_PHASES,
    JobPhase.CREATING: frozenset({JobPhase.RUNNING, JobPhase.RESTARTING}) | _ENDING_PHASES,
    JobPhase.RUNNING: frozenset({JobPhase.RESTARTING}) | _ENDING_PHASES,
    JobPhase.RESTARTING: frozenset({JobPhase.RUNNING}) | _ENDING_PHASES,
    JobPhase.SUSPENDED: frozenset({JobPhase.PENDING, JobPhase.TERMINATING}) | FINAL_PHASES,
    JobPhase.TERMINATING: FINAL_PHASES,
}
"""The allowed phase changes; a final phase never changes."""


class ReplicaOutcome(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class RestartCause(StrEnum):
    """The cause of a restart; restarts are counted per cause."""

    APP = "app"
    NODE = "node"
    CREATION = "creation"
    DISRUPTION = "disruption"
    """Deleted by a user, evicted or preempted: by default not counted against the restart limit."""


class SizeRequester(StrEnum):
    """The source of a size request; the latest request wins, and of simultaneous ones the last in this order."""

    AUTOSCALER = "autoscaler"
    MASTER = "master"
    MANUAL_PLAN = "plan"
    SPEC = "spec"
    SCALE = "scale"


class SizeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    size: int
    at: Timestamp
    message: str = ""
    """The reason given by the requester; empty for users."""


class SizeAdvice(Struct, frozen=True, kw_only=True, rename="camel"):
    """The size that the autoscaler recommends, whether or not it is applied."""

    size: int
    reason: str
    """A CamelCase code; advice that differs only in its message is not written again."""
    message: str
    at: Timestamp


class TimelineEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    at: Timestamp
    reason: str
    """What happened, as the reason of the event: the phase that the job entered, or `Resized`."""
    message: Message = NO_MESSAGE
    """Why it happened."""


class JobOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The final phase of a job whose end has been decided, and why."""

    phase: JobPhase
    message: Message
    at: Timestamp
    must_delete_all: bool = False
    """Whether all pods are deleted, regardless of the cleanPodPolicy."""


class PhaseStart(Struct, frozen=True, kw_only=True, rename="camel"):
    phase: JobPhase
    since: Timestamp


class ClockOffset(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far the time of day of a machine is ahead of the clock that counts the seconds it was awake since boot.

    It changes only if the time of day is set or the machine sleeps. Offsets of two boots cannot be compared.
    """

    boot_id: str
    seconds: float


class ReplicaFailure(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How one replica failed; kept after its pod is deleted."""

    replica: str
    attempt: int = 0
    cause: RestartCause = RestartCause.APP
    container: str = ""
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    """The reason reported by the cluster, such as `OOMKilled`, or the fault of the node."""
    node: str = ""
    at: Timestamp
    message: str = ""
    """The end of the container log or the termination message."""


class ReplicaCounts(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    size: int = 0
    pending: int = 0
    scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    restarting: int = 0
    failed: int = 0


class GroupMember(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    rank: int
    service: str = ""
    """The service name; empty for the default name of the rank."""
    port: int | None = None
    resources: dict[str, str] = {}
    """Resources that override those of the template."""
    relaunches: int = 0
    """How many earlier members had this rank."""
    was_created: bool = False
    """Whether its pod has been observed; the engine never creates the pod of a member twice."""
    replaces_id: int | None = None
    """The ID of the member that it replaces once it runs."""


class PlanExecution(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    plan_name: str
    started_at: Timestamp
    message: str = ""
    added_pods: tuple[str, ...] = ()
    removed_pod_uids: tuple[str, ...] = ()
    replaced_pod_uids: tuple[str, ...] = ()
    """The UIDs of pods that migrate; each is also removed as soon as its replacement runs."""


class StartFailure(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A program that ended right after its start, and how often in a row it did so in the same way."""

    cause: str
    """The line of its log that tells why, such as `ModuleNotFoundError: No module named 'torch'`."""
    count: int
    attempt: int
    """The attempt after the last of these failures; failures of earlier attempts have been counted."""


class GroupState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The state of one replica group.

    `attempt` only grows. A pod is stale if its attempt is below the minimum of the job, of its group or of its
    index. A restart raises the minimum of its scope to the current attempt.
    """

    attempt: int = 0
    job_min_attempt: int = 0
    group_min_attempt: int = 0
    index_min_attempts: dict[int, int] = {}
    replica_outcomes: dict[int, ReplicaOutcome] = {}
    """Outcomes of replicas at their current attempt; they outlive the pod objects."""
    skipped_indexes: tuple[int, ...] = ()
    """Indexes of replicas that a resize removed while higher ones stayed."""
    applied_size: int | None = None
    """The size in effect; None until the first reconciliation."""
    size_requests: dict[SizeRequester, SizeRequest] = {}
    advice: SizeAdvice | None = None
    throughput_by_size: dict[int, float] = {}
    """Measured throughput per group size, in the unit that the job reports; read by the autoscaler."""
    rejected_size: int | None = None
    """The last requested size that a group of fixed size rejected; it prevents repeated events."""
    template_hash: str = ""
    """The hash of the template of the current pods."""
    members: dict[int, GroupMember] = {}
    """The members of a master-managed group by ID, without pods that the master created itself."""
    next_member_id: int = 0
    """IDs are never reused."""
    rank_relaunches: dict[int, int] = {}
    """Relaunches per rank, kept for ranks without a member: a restarted master has lost the count."""
    member_resources: dict[str, str] = {}
    """Resources of new members that override those of the template: the latest request per resource."""
    master_resources: dict[str, str] = {}
    """The latest request of the master, who repeats it for every member: a repetition is not a new request."""
    is_user_capped: bool = False
    """Whether a user set the size last: members with higher ranks are deleted, even those the master created."""
    restarts_by_cause: dict[RestartCause, int] = {}
    idle_master_restarts: int = 0
    """Restarts of a master that never requested members; not counted against the restart limit."""
    creation_stuck_since: Timestamp | None = None
    """Since when container creation has been failing; None if it does not fail."""
    last_restart_at: Timestamp | None = None
    restart_streak: int = 0
    """The number of restart rounds in quick succession; determines the backoff."""
    streak_start_attempt: int = 0
    start_failure: StartFailure | None = None
    """Why the program of the group cannot start; None if it can, as far as is known."""

    def min_attempt(self, index: int) -> int:
        """Return the lowest attempt at which the pod of this index is not stale."""
        return max(self.job_min_attempt, self.group_min_attempt, self.index_min_attempts.get(index, 0))

    @property
    def latest_requester(self) -> SizeRequester | None:
        """The source of the size request in effect; None if there is no request."""
        order = list(SizeRequester)
        requests = self.size_requests
        return max(requests, key=lambda source: (requests[source].at, order.index(source)), default=None)

    @property
    def restarts_without_disruptions(self) -> int:
        """The number of restarts, disruptions excluded."""
        return sum(count for cause, count in self.restarts_by_cause.items() if cause is not RestartCause.DISRUPTION)

    def count_restarts(self, *, with_disruptions: bool) -> int:
        return sum(self.restarts_by_cause.values()) if with_disruptions else self.restarts_without_disruptions


class EngineState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    phase: JobPhase
    message: Message = NO_MESSAGE
    observed_generation: int = 0
    """The generation of the spec that the state is based on."""
    accepted_spec: AcceptedSpec | None = None
    has_job_service: bool = False
    """Whether the replicas share one service. It never changes: replicas know the names of their peers."""
    has_control_group: bool = False
    """Whether the operator added a control group. It changes only while the job is suspended."""
    started_at: Timestamp
    first_running_at: Timestamp | None = None
    resumed_at: Timestamp | None = None
    """When the job was last resumed; startLimit counts from then instead of from the start."""
    active_since: Timestamp | None = None
    """Since when timeLimit has been counting; None before the first run and while suspended."""
    active_seconds_before: float = 0.0
    """Seconds counted against timeLimit before `active_since`."""
    clock_offset: ClockOffset | None = None
    """The offset to which the timers of this state belong; None if it is unknown."""
    uncounted_seconds: float = 0.0
    """By how much the offset has grown since the job started; no timer counts this time."""
    uncounted_seconds_before: float = 0.0
    """How much of that was before the job was resumed or ended."""
    avoided_nodes: tuple[str, ...] = ()
    """Nodes where replicas were lost or could not be created, the latest last; new pods prefer other nodes."""
    ended_at: Timestamp | None = None
    status_written_at: Timestamp | None = None
    outcome: JobOutcome | None = None
    groups: dict[str, GroupState] = {}
    replica_counts: dict[str, ReplicaCounts] = {}
    restart_count: int = 0
    """Restarts decided so far; one that restarts several groups counts once."""
    last_restarted_group: str = ""
    emitted_warnings: tuple[str, ...] = ()
    root_cause: ReplicaFailure | None = None
    """The earliest failure that led to the end of the job or, until then, to the latest restart."""
    failures: tuple[ReplicaFailure, ...] = ()
    plan_executions: dict[str, PlanExecution] = {}
    """The ScalePlans that are being executed, by UID."""
    work_done_since: Timestamp | None = None
    """Since when all master-managed members have succeeded while the master keeps the job running."""
    server_addresses: tuple[str, ...] = ()
    """The parameter servers in rank order, as listed by the latest plan."""
    departures: dict[str, Departure] = {}
    """The replicas that were asked to save their state, by the UID of their pod."""
    checkpoint_requests: int = 0
    """How many checkpoint requests there were; the number of the latest one."""
    membership: PublishedMembership | None = None
    """The membership that replicas learn of; None if no group is elastic."""
    phase_start: PhaseStart | None = None
    phase_seconds: dict[JobPhase, float] = {}
    """Total seconds spent in each phase, the current stay excluded."""
    timeline: tuple[TimelineEntry, ...] = ()

    @property
    def aligned_started_at(self) -> datetime:
        """When the job would have started if the clock had not jumped since."""
        return self.started_at + timedelta(seconds=self.uncounted_seconds)

    def counts_from(self, at: datetime) -> datetime:
        """Return from when a timer counts that began at `at`, the last of the start, the last resume and the end."""
        return at + timedelta(seconds=self.uncounted_seconds - self.uncounted_seconds_before)

    def group(self, name: str) -> GroupState:
        """Return the state of a group; the default state if there is none."""
        return self.groups.get(name, GroupState())
