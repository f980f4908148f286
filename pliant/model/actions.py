"""The actions a decision may contain: a closed set, so that the type checker finds an unhandled action."""

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
    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateService:
    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConfigMap:
    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantMasterAccess:
    """Bind the service account of the job's master to the role it needs in its namespace."""

    service_account: str
    should_create_account: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete the pod with this UID; a later pod of the same name stays."""

    name: str
    uid: str
    reason: str
    is_forced: bool = False
    """Delete with grace period 0: the node is dead, so no kubelet can confirm that the pod has stopped."""
    prevents_relaunch: bool = False
    """The job's master must not recreate the pod: the operator notifies the master first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteService:
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScalePlan:
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete the job resource itself: its TTL after it finished has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
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
    """A status to write; the front end of the job's kind translates it into the fields of that kind."""

    state: EngineState
    replica_counts: Mapping[str, ReplicaCounts] = field(default_factory=dict)
    observed_pods: tuple[ObservedPod, ...] | None = None
    """The pods observed by the decision; None if the pods were not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do next for one job.

    If `intent` is set, the controller writes it to the status first and ends the reconciliation: a step that must
    not be decided twice is persisted first, and the next reconciliation acts on it. Besides an intent there are only
    events, which are emitted after the write. Without an intent, the actions run first; the statuses follow.
    """

    transition_status: JobStatusUpdate | None = None
    actions: tuple[Action, ...] = ()
    status_updates: Mapping[JobKey, JobStatusUpdate] = field(default_factory=dict)
    plan_statuses: Mapping[str, PlanStatus] = field(default_factory=dict)
    """Statuses of ScalePlans by name; written before the status of the job."""
    requeue_after: timedelta | None = None
