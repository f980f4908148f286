"""The parts of anybody's pods, and of quotas, that tell how full a cluster is."""

from __future__ import annotations

from datetime import datetime

import msgspec

from pliant.kube.objects import ObjectMeta
from pliant.kube.quantity import Quantity
from pliant.kube.scheduling.fit import TERMINAL_PHASES
from pliant.kube.scheduling.types import SchedulingPodSpec
from pliant.model import labels


class _PodViewStruct(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class ReplicaLabels(_PodViewStruct, frozen=True):
    """The labels that tell a member of a group; those of other people's pods are not even kept."""

    group: str = msgspec.field(default="", name=labels.REPLICA_NAME_LABEL)
    index: str = msgspec.field(default="", name=labels.REPLICA_INDEX_LABEL)


class PodOwner(_PodViewStruct, frozen=True):
    """Who a pod belongs to."""

    name: str = ""
    uid: str = ""
    controller: bool = False


class ClusterPodMeta(_PodViewStruct, frozen=True):
    """Which pod it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: ReplicaLabels = ReplicaLabels()
    owner_references: tuple[PodOwner, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class SchedulingGate(_PodViewStruct, frozen=True):
    """Somebody who must agree before a pod may be placed."""

    name: str = ""


class ClusterPodSpec(SchedulingPodSpec, frozen=True):
    """Where a pod is or may go, and what it takes up there."""

    scheduling_gates: tuple[SchedulingGate, ...] = ()


class ClusterPodCondition(_PodViewStruct, frozen=True):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    message: str = ""


class ClusterPodStatus(_PodViewStruct, frozen=True):
    """How a pod fares."""

    phase: str = "Pending"
    conditions: tuple[ClusterPodCondition, ...] = ()


class ClusterPod(_PodViewStruct, frozen=True):
    """A pod of anybody."""

    metadata: ClusterPodMeta
    spec: ClusterPodSpec = ClusterPodSpec()
    status: ClusterPodStatus = ClusterPodStatus()

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it runs or ever will."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def is_terminating(self) -> bool:
        """Whether its deletion has begun."""
        return self.metadata.deletion_timestamp is not None

    @property
    def owner(self) -> PodOwner | None:
        """Whoever made it, if anybody did."""
        return next((each for each in self.metadata.owner_references if each.controller), None)

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a node."""
        spec = self.spec
        return not (spec.node_name or spec.scheduling_gates or self.is_terminating or self.is_finished)

    @property
    def is_unschedulable_anyway(self) -> bool:
        """Whether the scheduler has found something else in its way: no room that others make would help it."""
        for sign in self.status.conditions:
            if sign.type == "PodScheduled" and sign.status == "False" and sign.message.startswith("0/"):
                return "Insufficient" not in sign.message and "Too many pods" not in sign.message
        return False


class ResourceQuotaSpec(_PodViewStruct, frozen=True):
    """What a namespace may use up, of which of its pods."""

    hard: dict[str, Quantity] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, object] | None = None


class ResourceQuota(_PodViewStruct, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
