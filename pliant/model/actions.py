"""The actions a decision may contain: a closed set, so that the type checker finds an unhandled action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pliant.model.messages import Message
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
class WriteMembershipFile:
    """Create or update the ConfigMap from which replicas read the membership."""

    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDisruptionBudget:
    name: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowEviction:
    """Label the pod with this UID so that the disruption budget of the job no longer selects it."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantMasterAccess:
    """Create the service account of the job's master, and bind it to the role it needs in its namespace."""

    service_account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMasterAccess:
    """Check that the service account that the user named for the master has the permissions it needs."""

    service_account: str


class PodDeletionReason(StrEnum):
    JOB_ENDED = "JobEnded"
    JOB_SUSPENDED = "JobSuspended"
    NODE_LOST = "NodeLost"
    REPLACED = "Replaced"
    """A newer attempt of the replica replaces the pod."""
    REMOVED = "Removed"
    """The replica is no longer part of the job."""
    RESCHEDULED = "Rescheduled"
    """The pod waits for a node, and the nodes that it must exclude have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete the pod with this UID; a later pod of the same name stays."""

    name: str
    uid: str
    reason: PodDeletionReason
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
    message: Message
    is_warning: bool = False


Action = (
    CreatePod
    | CreateService
    | CreateConfigMap
    | CreateDisruptionBudget
    | WriteMembershipFile
    | AllowEviction
    | GrantMasterAccess
    | CheckMasterAccess
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
class PersistTransition:
    """Write the status, then emit the events; the write triggers the next reconciliation, which acts on it.

    A step that must not be decided twice is persisted before anything is done about it.
    """

    status: JobStatusUpdate
    events: tuple[EmitEvent, ...]
    """The event of the transition, and that of the checkpoint request that it causes, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Run the actions in order, then write the statuses of plans, then that of the job."""

    actions: tuple[Action, ...] = ()
    status: JobStatusUpdate | None = None
    """None if the stored status is still right, or may be written later."""
    plan_statuses: Mapping[str, PlanStatus] = field(default_factory=dict)
    """Statuses of ScalePlans by name."""
    requeue_after: timedelta | None = None


Decision = PersistTransition | Act
"""What to do next for one job."""
