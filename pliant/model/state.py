"""What the engine remembers about a job between passes: one small blob in the job's own status."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

Timestamp = Annotated[datetime, Meta(tz=True)]
"""A moment that says which clock it was read from; others cannot be compared with now."""


class JobPhase(StrEnum):
    """Where a job stands."""

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
        """Whether a job never leaves this phase."""
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
"""Every way a phase may change; a final phase leads nowhere."""


class ReplicaOutcome(StrEnum):
    """How a member's work ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class RestartCause(StrEnum):
    """What made a restart necessary; budgets are counted by it."""

    APP = "app"
    NODE = "node"
    CREATION = "creation"
    DISRUPTION = "disruption"
    """Deleted by hand, evicted, preempted: nobody's fault, and free of charge."""


class SizeRequester(StrEnum):
    """Who may ask for a size; the later request wins, and of several at once the last in this order."""

    AUTOSCALER = "autoscaler"
    MASTER = "master"
    """The job's own master, by a plan."""
    MANUAL_PLAN = "plan"
    """A plan written by hand."""
    SPEC = "spec"
    SCALE = "scale"


class SizeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A size somebody asked for, and since when."""

    size: int
    at: Timestamp
    message: str = ""
    """In the words of whoever asked; people need give no reason."""


class SizeAdvice(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the autoscaler thinks of a group's size, whether or not it may act on it."""

    size: int
    reason: str
    """The kind of reason, one word: an advice that differs in nothing but its text is no news."""
    message: str
    at: Timestamp


class TimelineEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of a job's timeline."""

    at: Timestamp
    reason: str
    message: str = ""


class JobOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The end a job is heading for, and why."""

    phase: JobPhase
    message: str
    at: Timestamp
    must_delete_all: bool = False
    """Whether nothing may be left, whatever the job's own policy says."""


class PhaseStart(Struct, frozen=True, kw_only=True, rename="camel"):
    """A phase, and since when the job has been in it."""

    phase: JobPhase
    since: Timestamp


class ReplicaFailure(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How one member ended badly, kept although its pod may be gone."""

    replica: str
    """`worker-1`."""
    attempt: int = 0
    cause: RestartCause = RestartCause.APP
    container: str = ""
    exit_code: int | None = None
    signal: str = ""
    """The name of the signal that ended it, if one did."""
    reason: str = ""
    """The cluster's word for it: `OOMKilled`; or what was wrong with the node."""
    node: str = ""
    at: Timestamp
    message: str = ""
    """What it said last."""


class ReplicaCounts(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How many members of a group are in which condition."""

    size: int = 0
    pending: int = 0
    scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    restarting: int = 0
    failed: int = 0


class GroupMember(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One member of a group that a master looks after."""

    rank: int
    service: str = ""
    """The name by which others reach it; empty for the usual one of its rank."""
    port: int | None = None
    resources: dict[str, str] = {}
    """What it asks for, where that differs from its template."""
    relaunches: int = 0
    """How many held its rank before."""
    was_created: bool = False
    """Whether its pod has been there: it is made once."""
    replaces_id: int | None = None
    """Whom it takes over from once it runs."""


class PlanExecution(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A plan that is being carried out."""

    plan_name: str
    started_at: Timestamp
    message: str = ""
    added_pods: tuple[str, ...] = ()
    """Those it adds, by name."""
    removed_pod_uids: tuple[str, ...] = ()
    """Those of others that it sends away, by uid."""


class GroupState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What is remembered about one group.

    `attempt` only grows. A pod is stale when the attempt it carries is below the floor of the whole job, of its
    group or of its own index; each floor is an attempt at which a restart of that scope was decided.
    """

    attempt: int = 0
    job_min_attempt: int = 0
    group_min_attempt: int = 0
    index_min_attempts: dict[int, int] = {}
    replica_outcomes: dict[int, ReplicaOutcome] = {}
    """Members known to have ended at their present attempt, so that losing the pod object loses nothing."""
    applied_size: int | None = None
    """The size acted upon; None until the first pass."""
    size_requests: dict[SizeRequester, SizeRequest] = {}
    advice: SizeAdvice | None = None
    """The autoscaler's latest word."""
    throughput_by_size: dict[int, float] = {}
    """How fast the job was with so many members, in units of its own; where the autoscaler goes by that."""
    rejected_size: int | None = None
    """A size that was asked for while the group must keep the one it has; told once."""
    template_hash: str = ""
    """The fingerprint of the template its pods are made from."""
    members: dict[int, GroupMember] = {}
    """Who belongs to a group that a master looks after, by id; beside pods that it made itself."""
    next_member_id: int = 0
    """The id of the next member; none is used twice."""
    rank_relaunches: dict[int, int] = {}
    """How often each rank was made anew, though nobody may hold it now: a new master has lost count."""
    member_resources: dict[str, str] = {}
    """What new members ask for, if a plan has said."""
    is_user_capped: bool = False
    """Whether a person has set its size last: nobody of a higher rank stays, whoever made it."""
    restarts_by_cause: dict[RestartCause, int] = {}
    idle_master_restarts: int = 0
    """How often a master was started again because it asked for nobody, at nobody's cost."""
    creation_stuck_since: Timestamp | None = None
    """Since when containers of the group could not be created; None while they can."""
    last_restart_at: Timestamp | None = None
    restart_streak: int = 0
    """Rounds of restarts in quick succession; the wait before the next one grows with it."""
    streak_start_attempt: int = 0
    """The attempt that the present round began with."""

    def min_attempt(self, index: int) -> int:
        """The attempt the member at this index must have reached."""
        return max(self.job_min_attempt, self.group_min_attempt, self.index_min_attempts.get(index, 0))

    @property
    def latest_requester(self) -> SizeRequester | None:
        """Whose request counts; None if nobody has asked for a size."""
        order = list(SizeRequester)
        asked = self.size_requests
        return max(asked, key=lambda who: (asked[who].at, order.index(who)), default=None)

    @property
    def charged_restarts(self) -> int:
        """Restarts that count against the limit."""
        return sum(number for cause, number in self.restarts_by_cause.items() if cause is not RestartCause.DISRUPTION)

    def count_restarts(self, *, with_disruptions: bool) -> int:
        """Restarts that count against a limit which may count disruptions, too."""
        return sum(self.restarts_by_cause.values()) if with_disruptions else self.charged_restarts


class EngineState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything the engine remembers about one job."""

    phase: JobPhase
    message: str = ""
    started_at: Timestamp
    first_running_at: Timestamp | None = None
    """When all members first ran."""
    resumed_at: Timestamp | None = None
    """Since when the job waits for all its members to run, if not since its start: it was suspended meanwhile."""
    active_since: Timestamp | None = None
    """Since when the time limit runs; None before the first run and while suspended."""
    active_seconds_before: float = 0.0
    """Seconds that ran off before."""
    avoided_nodes: tuple[str, ...] = ()
    """Nodes where members were lost or not created, the latest last; new pods keep off them where they can."""
    ended_at: Timestamp | None = None
    status_written_at: Timestamp | None = None
    outcome: JobOutcome | None = None
    groups: dict[str, GroupState] = {}
    replica_counts: dict[str, ReplicaCounts] = {}
    restart_count: int = 0
    """Restarts decided so far; a wide one counts once, however many groups pay for it."""
    last_restarted_group: str = ""
    """The group whose member called for the latest restart."""
    emitted_warnings: tuple[str, ...] = ()
    """What its author has been warned of."""
    root_cause: ReplicaFailure | None = None
    """The earliest failure behind the end or, until then, behind the latest restart."""
    failures: tuple[ReplicaFailure, ...] = ()
    """The latest members that ended badly, each with a line of what it said."""
    plan_executions: dict[str, PlanExecution] = {}
    """The plans that are being carried out, by uid."""
    work_done_since: Timestamp | None = None
    """Since when all members whom a master looks after have done their work, and it has not ended the job."""
    ps_hosts: tuple[str, ...] = ()
    """The parameter servers in the order of their ranks, as the latest plan has them."""
    phase_start: PhaseStart | None = None
    """The phase whose time is being counted."""
    phase_seconds: dict[JobPhase, float] = {}
    """Seconds in each phase that was left, all times together."""
    timeline: tuple[TimelineEntry, ...] = ()

    def group(self, name: str) -> GroupState:
        """What is remembered about a group; a fresh memory if nothing is."""
        return self.groups.get(name, GroupState())
