"""The parts of anybody's pods, and of quotas, that tell how full a cluster is."""

from __future__ import annotations

from datetime import datetime

import msgspec

from pliant.kube.amounts import Amount
from pliant.kube.objects import ObjectMeta
from pliant.kube.placing import FINISHED
from pliant.kube.wanting import AskingSpec
from pliant.model import labels


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class MemberLabels(_Part, frozen=True):
    """The labels that tell a member of a group; those of other people's pods are not even kept."""

    group: str = msgspec.field(default="", name=labels.REPLICA)
    index: str = msgspec.field(default="", name=labels.INDEX)


class OwnerMark(_Part, frozen=True):
    """Who a pod belongs to."""

    name: str = ""
    uid: str = ""
    controller: bool = False


class AnyMeta(_Part, frozen=True):
    """Which pod it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: MemberLabels = MemberLabels()
    owner_references: tuple[OwnerMark, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Gate(_Part, frozen=True):
    """Somebody who must agree before a pod may be placed."""

    name: str = ""


class AnySpec(AskingSpec, frozen=True):
    """Where a pod is or may go, and what it takes up there."""

    scheduling_gates: tuple[Gate, ...] = ()


class Sign(_Part, frozen=True):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    message: str = ""


class AnyStatus(_Part, frozen=True):
    """How a pod fares."""

    phase: str = "Pending"
    conditions: tuple[Sign, ...] = ()


class AnyPod(_Part, frozen=True):
    """A pod of anybody."""

    metadata: AnyMeta
    spec: AnySpec = AnySpec()
    status: AnyStatus = AnyStatus()

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it runs or ever will."""
        return self.status.phase in FINISHED

    @property
    def is_leaving(self) -> bool:
        """Whether its deletion has begun."""
        return self.metadata.deletion_timestamp is not None

    @property
    def owner(self) -> OwnerMark | None:
        """Whoever made it, if anybody did."""
        return next((each for each in self.metadata.owner_references if each.controller), None)

    @property
    def waits(self) -> bool:
        """Whether it waits for a node."""
        spec = self.spec
        return not (spec.node_name or spec.scheduling_gates or self.is_leaving or self.is_finished)

    @property
    def needs_more_than_room(self) -> bool:
        """Whether the scheduler has found something else in its way: no room that others make would help it."""
        for sign in self.status.conditions:
            if sign.type == "PodScheduled" and sign.status == "False" and sign.message.startswith("0/"):
                return "Insufficient" not in sign.message and "Too many pods" not in sign.message
        return False


class QuotaSpec(_Part, frozen=True):
    """What a namespace may use up, of which of its pods."""

    hard: dict[str, Amount] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, object] | None = None


class Quota(_Part, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta
    spec: QuotaSpec = QuotaSpec()
