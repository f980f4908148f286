"""What the engine remembers about a job between passes: one small blob in the job's own status."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Phase(StrEnum):
    """Where a job stands."""

    PENDING = "Pending"
    CREATING = "Creating"
    RUNNING = "Running"
    RESTARTING = "Restarting"
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

LEGAL_MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.PENDING: frozenset({Phase.CREATING, Phase.RUNNING, Phase.RESTARTING, Phase.TERMINATING}) | FINAL,
    Phase.CREATING: frozenset({Phase.RUNNING, Phase.RESTARTING, Phase.TERMINATING}) | FINAL,
    Phase.RUNNING: frozenset({Phase.RESTARTING, Phase.TERMINATING}) | FINAL,
    Phase.RESTARTING: frozenset({Phase.RUNNING, Phase.TERMINATING}) | FINAL,
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


class Moment(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of a job's timeline."""

    at: datetime
    what: str
    why: str = ""


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The end a job is heading for, and why."""

    phase: Phase
    message: str
    at: datetime


class GroupCounts(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How many members of a group are in which condition."""

    size: int = 0
    pending: int = 0
    scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    restarting: int = 0
    failed: int = 0


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
    restarts: dict[Cause, int] = {}
    restarted_at: datetime | None = None
    streak: int = 0
    """Restarts in quick succession; the wait before the next one grows with it."""

    def wanted_attempt(self, index: int) -> int:
        """The attempt the member at this index must have reached."""
        return max(self.job_floor, self.group_floor, self.index_floors.get(index, 0))


class EngineState(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything the engine remembers about one job."""

    phase: Phase
    message: str = ""
    started_at: datetime
    running_at: datetime | None = None
    ended_at: datetime | None = None
    written_at: datetime | None = None
    verdict: Verdict | None = None
    groups: dict[str, GroupState] = {}
    counts: dict[str, GroupCounts] = {}
    restarts: int = 0
    """Restarts decided so far; a wide one counts once, however many groups pay for it."""
    restarted_group: str = ""
    """The group whose member called for the latest restart."""
    timeline: tuple[Moment, ...] = ()

    def group(self, name: str) -> GroupState:
        """What is remembered about a group; a fresh memory if nothing is."""
        return self.groups.get(name, GroupState())
