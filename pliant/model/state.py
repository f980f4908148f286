"""What the engine remembers about a job between passes: one small blob in the job's own status."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

Time = Annotated[datetime, Meta(tz=True)]
"""A moment that says which clock it was read from; others cannot be compared with now."""


class Phase(StrEnum):
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
        return self in FINAL


FINAL = frozenset({Phase.SUCCEED, Phase.FAILED, Phase.TIMEOUT, Phase.PREEMPTED, Phase.NODE_FAIL})

_ON_THE_WAY_OUT = frozenset({Phase.SUSPENDED, Phase.TERMINATING}) | FINAL

LEGAL_MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.PENDING: frozenset({Phase.CREATING, Phase.RUNNING, Phase.RESTARTING}) | _ON_THE_WAY_OUT,
    Phase.CREATING: frozenset({Phase.RUNNING, Phase.RESTARTING}) | _ON_THE_WAY_OUT,
    Phase.RUNNING: frozenset({Phase.RESTARTING}) | _ON_THE_WAY_OUT,
    Phase.RESTARTING: frozenset({Phase.RUNNING}) | _ON_THE_WAY_OUT,
    Phase.SUSPENDED: frozenset({Phase.PENDING, Phase.TERMINATING}) | FINAL,
    Phase.TERMINATING: FINAL,
}
"""Every way a phase may change; a final phase leads nowhere."""


class Outcome(StrEnum):
    """How a member's work ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Cause(StrEnum):
    """What made a restart necessary; budgets are counted by it."""

    APP = "app"
    NODE = "node"
    CREATION = "creation"
    DISRUPTION = "disruption"
    """Deleted by hand, evicted, preempted: nobody's fault, and free of charge."""


class Requester(StrEnum):
    """Who may ask for a size; the later request wins, and of several at once the last in this order."""

    AUTOSCALER = "autoscaler"
    MASTER = "master"
    """The job's own master, by a plan."""
    PLAN = "plan"
    """A plan written by hand."""
    SPEC = "spec"
    SCALE = "scale"


class Request(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A size somebody asked for, and since when."""

    size: int
    at: Time
    why: str = ""
    """In the words of whoever asked; people need give no reason."""


class Advice(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the autoscaler thinks of a group's size, whether or not it may act on it."""

    size: int
    code: str
    """The kind of reason, one word: an advice that differs in nothing but its text is no news."""
    why: str
    at: Time


class Moment(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of a job's timeline."""

    at: Time
    what: str
    why: str = ""


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The end a job is heading for, and why."""

    phase: Phase
    message: str
    at: Time
    must_clear: bool = False
    """Whether nothing may be left, whatever the job's own policy says."""


class Stage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A phase, and since when the job has been in it."""

    phase: Phase
    since: Time


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How one member ended badly, kept although its pod may be gone."""

    member: str
    """`worker-1`."""
    attempt: int = 0
    cause: Cause = Cause.APP
    container: str = ""
    code: int | None = None
    signal: str = ""
    """The name of the signal that ended it, if one did."""
    reason: str = ""
    """The cluster's word for it: `OOMKilled`; or what was wrong with the node."""
    node: str = ""
    at: Time
    message: str = ""
    """What it said last."""


class GroupCounts(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How many members of a group are in which condition."""

    size: int = 0
    pending: int = 0
    scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    restarting: int = 0
    failed: int = 0


class Member(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One member of a group that a master looks after."""

    rank: int
    service: str = ""
    """The name by which others reach it; empty for the usual one of its rank."""
    port: int | None = None
    resource: dict[str, str] = {}
    """What it asks for, where that differs from its template."""
    relaunches: int = 0
    """How many held its rank before."""
    is_made: bool = False
    """Whether its pod has been there: it is made once."""
    replaces: int | None = None
    """Whom it takes over from once it runs."""


class Scaling(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A plan that is being carried out."""

    name: str
    at: Time
    why: str = ""
    pods: tuple[str, ...] = ()
    """Those it adds, by name."""
    removals: tuple[str, ...] = ()
    """Those of others that it sends away, by uid."""


class GroupState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What is remembered about one group.

    `attempt` only grows. A pod is stale when the attempt it carries is below the floor of the whole job, of its
    group or of its own index; each floor is an attempt at which a restart of that scope was decided.
    """

    attempt: int = 0
    job_floor: int = 0
    group_floor: int = 0
    index_floors: dict[int, int] = {}
    finished: dict[int, Outcome] = {}
    """Members known to have ended at their present attempt, so that losing the pod object loses nothing."""
    size: int | None = None
    """The size acted upon; None until the first pass."""
    requests: dict[Requester, Request] = {}
    advice: Advice | None = None
    """The autoscaler's latest word."""
    speeds: dict[int, float] = {}
    """How fast the job was with so many members, in units of its own; where the autoscaler goes by that."""
    refused: int | None = None
    """A size that was asked for while the group must keep the one it has; told once."""
    template: str = ""
    """The fingerprint of the template its pods are made from."""
    members: dict[int, Member] = {}
    """Who belongs to a group that a master looks after, by id; beside pods that it made itself."""
    next_id: int = 0
    """The id of the next member; none is used twice."""
    holders: dict[int, int] = {}
    """How often each rank was made anew, though nobody may hold it now: a new master has lost count."""
    resource: dict[str, str] = {}
    """What new members ask for, if a plan has said."""
    is_capped: bool = False
    """Whether a person has set its size last: nobody of a higher rank stays, whoever made it."""
    restarts: dict[Cause, int] = {}
    roused: int = 0
    """How often a master was started again because it asked for nobody, at nobody's cost."""
    stuck_from: Time | None = None
    """Since when containers of the group could not be created; None while they can."""
    restarted_at: Time | None = None
    streak: int = 0
    """Rounds of restarts in quick succession; the wait before the next one grows with it."""
    streak_from: int = 0
    """The attempt that the present round began with."""

    def wanted_attempt(self, index: int) -> int:
        """The attempt the member at this index must have reached."""
        return max(self.job_floor, self.group_floor, self.index_floors.get(index, 0))

    @property
    def latest(self) -> Requester | None:
        """Whose request counts; None if nobody has asked for a size."""
        order = list(Requester)
        asked = self.requests
        return max(asked, key=lambda who: (asked[who].at, order.index(who)), default=None)

    @property
    def spent(self) -> int:
        """Restarts that count against the limit."""
        return sum(number for cause, number in self.restarts.items() if cause is not Cause.DISRUPTION)

    def charged(self, *, with_disruptions: bool) -> int:
        """Restarts that count against a limit which may count disruptions, too."""
        return sum(self.restarts.values()) if with_disruptions else self.spent


class EngineState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything the engine remembers about one job."""

    phase: Phase
    message: str = ""
    started_at: Time
    running_at: Time | None = None
    """When all members first ran."""
    waiting_from: Time | None = None
    """Since when the job waits for all its members to run, if not since its start: it was suspended meanwhile."""
    clock_from: Time | None = None
    """Since when the time limit runs; None before the first run and while suspended."""
    clock_spent: float = 0.0
    """Seconds that ran off before."""
    avoided: tuple[str, ...] = ()
    """Nodes where members were lost or not created, the latest last; new pods keep off them where they can."""
    ended_at: Time | None = None
    written_at: Time | None = None
    verdict: Verdict | None = None
    groups: dict[str, GroupState] = {}
    counts: dict[str, GroupCounts] = {}
    restarts: int = 0
    """Restarts decided so far; a wide one counts once, however many groups pay for it."""
    restarted_group: str = ""
    """The group whose member called for the latest restart."""
    warned: tuple[str, ...] = ()
    """What its author has been warned of."""
    first_cause: Failure | None = None
    """The earliest failure behind the end or, until then, behind the latest restart."""
    failures: tuple[Failure, ...] = ()
    """The latest members that ended badly, each with a line of what it said."""
    plans: dict[str, Scaling] = {}
    """The plans that are being carried out, by uid."""
    idle_from: Time | None = None
    """Since when all members whom a master looks after have done their work, and it has not ended the job."""
    hosts: tuple[str, ...] = ()
    """The parameter servers in the order of their ranks, as the latest plan has them."""
    stage: Stage | None = None
    """The phase whose time is being counted."""
    spent: dict[Phase, float] = {}
    """Seconds in each phase that was left, all times together."""
    timeline: tuple[Moment, ...] = ()

    def group(self, name: str) -> GroupState:
        """What is remembered about a group; a fresh memory if nothing is."""
        return self.groups.get(name, GroupState())
