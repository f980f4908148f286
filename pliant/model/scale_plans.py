"""ScalePlans: objects that request changes of a job's membership, written by its master or by a user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pliant.model.job import JobKey


class PlanPhase(StrEnum):
    CREATED = "Created"
    PENDING = "Pending"
    SCALING = "Scaling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_executed(self) -> bool:
        """Whether the operator has begun to execute the plan: edits have no effect any more."""
        return self is PlanPhase.SCALING or self.is_final

    @property
    def is_final(self) -> bool:
        return self in (PlanPhase.SUCCEEDED, PlanPhase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPodRequest:
    """A pod that a plan asks to create, remove or migrate."""

    group: str
    name: str = ""
    """The name of an existing pod; the operator names new pods."""
    id: int | None = None
    rank: int | None = None
    service: str = ""
    """The requested service name; empty for the default one."""
    port: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGroupRequest:
    """The size a plan requests for a group, and the resources of new members."""

    size: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    key: JobKey
    """The namespace and name of the plan itself, not of its job."""
    uid: str
    is_manual: bool = False
    is_claimed: bool = False
    """Whether the job's master has labelled a manual plan as its own to execute."""
    job_uids: frozenset[str] = frozenset()
    """The UIDs of the jobs that have the plan: by its status, or by owner references that masters write."""
    created_at: datetime
    generation: int = 0
    """Increases with every change of the spec."""
    observed_generation: int = 0
    """The generation that is or was executed; 0 if unknown."""
    group_requests: Mapping[str, PlanGroupRequest] = field(default_factory=dict)
    create_pods: tuple[PlanPodRequest, ...] = ()
    remove_pods: tuple[PlanPodRequest, ...] = ()
    migrate_pods: tuple[PlanPodRequest, ...] = ()
    """Pods to replace by pods with other resources."""
    server_addresses: tuple[str, ...] = ()
    """The parameter servers in rank order, if the plan lists them."""
    reason: str = ""
    phase: PlanPhase | None = None
    status_message: str = ""
    finished_at: datetime | None = None
    parse_error: str = ""
    """Why the plan cannot be parsed; such a plan fails."""

    @property
    def is_finished(self) -> bool:
        return self.phase is not None and self.phase.is_final

    @property
    def has_ignored_edit(self) -> bool:
        """Whether the spec was edited after the execution began."""
        return self.phase is not None and self.phase.is_executed and 0 < self.observed_generation < self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    phase: PlanPhase
    message: str
    at: datetime
    observed_generation: int = 0
    job_uid: str = ""
    """The UID of the job that has the plan; empty if there is none yet."""
