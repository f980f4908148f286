"""Plans: objects beside a job that ask for other members, written by its master or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pliant.model.job import JobKey


class PlanPhase(StrEnum):
    """How far a plan has come."""

    CREATED = "Created"
    PENDING = "Pending"
    SCALING = "Scaling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be done about it."""
        return self in (PlanPhase.SUCCEEDED, PlanPhase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """A pod that a plan names: to be made, to go, or to give way to another."""

    group: str
    name: str = ""
    """Of a pod that exists; whoever makes new ones decides their names."""
    id: int | None = None
    rank: int | None = None
    service: str = ""
    """The name by which others reach it; empty if any will do."""
    port: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """How many members a plan wants of a group, and what new ones ask for."""

    size: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """One plan, as it stands."""

    key: JobKey
    """Its own name; the job it is for is known to whoever hands it over."""
    uid: str
    is_manual: bool = False
    is_claimed: bool = False
    """Whether the job's master has put its mark on a plan that somebody else wrote: it will see to it."""
    created_at: datetime
    group_requests: Mapping[str, GroupRequest] = field(default_factory=dict)
    create_pods: tuple[PodRequest, ...] = ()
    remove_pods: tuple[PodRequest, ...] = ()
    migrate_pods: tuple[PodRequest, ...] = ()
    """Pods that give way to others with these resources."""
    ps_hosts: tuple[str, ...] = ()
    """Parameter servers in the order of their ranks, if the plan says."""
    reason: str = ""
    phase: PlanPhase | None = None
    status_message: str = ""
    """What its status tells beside the phase."""
    finished_at: datetime | None = None
    parse_error: str = ""
    """Why it cannot be read; such a plan fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """What is worth telling about a plan."""

    phase: PlanPhase
    message: str
    at: datetime
    """When it came to this phase."""
