"""The fields of pods and quotas that planning needs; all other fields are not decoded."""

from __future__ import annotations

from datetime import datetime

import msgspec

from pliant.kube.objects import ObjectMeta
from pliant.kube.scheduling.fit import TERMINAL_POD_PHASES
from pliant.kube.scheduling.types import SchedulingPodSpec
from pliant.model import labels
from pliant.schemas.quantity import Quantity


class _PodViewStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """The decoding options of all views."""


class ReplicaLabels(_PodViewStruct, frozen=True):
    group: str = msgspec.field(default="", name=labels.REPLICA_GROUP_LABEL)
    index: str = msgspec.field(default="", name=labels.REPLICA_INDEX_LABEL)


class PodOwner(_PodViewStruct, frozen=True):
    name: str = ""
    uid: str = ""
    controller: bool = False


class ClusterPodMeta(_PodViewStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: ReplicaLabels = ReplicaLabels()
    owner_references: tuple[PodOwner, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class SchedulingGate(_PodViewStruct, frozen=True):
    name: str = ""


class ClusterPodSpec(SchedulingPodSpec, frozen=True):
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class ClusterPodCondition(_PodViewStruct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class ClusterPodStatus(_PodViewStruct, frozen=True):
    phase: str = "Pending"
    conditions: tuple[ClusterPodCondition, ...] = ()


class ClusterPod(_PodViewStruct, frozen=True):
    metadata: ClusterPodMeta
    spec: ClusterPodSpec = ClusterPodSpec()
    status: ClusterPodStatus = ClusterPodStatus()

    @property
    def is_finished(self) -> bool:
        return self.status.phase in TERMINAL_POD_PHASES

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def owner(self) -> PodOwner | None:
        return next((each for each in self.metadata.owner_references if each.controller), None)

    @property
    def is_pending(self) -> bool:
        spec = self.spec
        return not (spec.node_name or spec.scheduling_gates or self.is_terminating or self.is_finished)

    @property
    def is_blocked_by_constraints(self) -> bool:
        """Whether the scheduler rejected it for other reasons than capacity: freeing capacity would not help."""
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False" and condition.message.startswith("0/"):
                return "Insufficient" not in condition.message and "Too many pods" not in condition.message
        return False


class ResourceQuotaSpec(_PodViewStruct, frozen=True):
    hard: dict[str, Quantity] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, object] | None = None


class ResourceQuota(_PodViewStruct, frozen=True):
    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
