"""What a decision may ask for: a closed set, so that a forgotten case is a type error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pliant.model.job import JobKey
from pliant.model.observed import ObservedPod
from pliant.model.scale_plans import PlanStatus
from pliant.model.state import EngineState, ReplicaCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """Bring the pod of one member into being."""

    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    """Give one member a name that others can reach."""

    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConfigMap:
    """Lay out what members read from files, before there are members."""

    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantMasterAccess:
    """Give the job's master an account of its own, and the rights it needs in its namespace."""

    service_account: str
    """The service account that its pod runs under."""
    should_create_account: bool
    """Whether the account is made for it, too, or is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Take away exactly this pod, and no later one of the same name."""

    name: str
    uid: str
    reason: str
    is_forced: bool = False
    """Whether to let go of it at once: its node is dead, so nobody can confirm that it has stopped."""
    is_permanent: bool = False
    """Whether nobody is to make another in its place: a master that would is told so first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteService:
    """Take away exactly this service."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScalePlan:
    """Take away exactly this plan."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Take the job itself away, kept long enough after its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """Tell people reading `kubectl describe` what happened."""

    reason: str
    message: str
    is_warning: bool = False


Action = (
    CreatePod
    | CreateService
    | CreateConfigMap
    | GrantMasterAccess
    | DeletePod
    | DeleteService
    | DeleteScalePlan
    | DeleteJob
    | EmitEvent
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatusUpdate:
    """What is worth telling about a job; front ends put it into their kind's own words."""

    state: EngineState
    replica_counts: Mapping[str, ReplicaCounts] = field(default_factory=dict)
    observed_pods: tuple[ObservedPod, ...] | None = None
    """The pods that were seen when this was decided; None if nobody looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do next about one job.

    An `intent` is written to the status before anything else happens, and ends the pass: what must not be decided
    twice is remembered first and acted upon by the next pass. Beside an intent there are only events, to be told
    once it is written. Without one, actions come first and the statuses after them.
    """

    intent: JobStatusUpdate | None = None
    actions: tuple[Action, ...] = ()
    status_updates: Mapping[JobKey, JobStatusUpdate] = field(default_factory=dict)
    plan_statuses: Mapping[str, PlanStatus] = field(default_factory=dict)
    """What there is to tell about plans, by name; written before the job's own status."""
    requeue_after: timedelta | None = None
