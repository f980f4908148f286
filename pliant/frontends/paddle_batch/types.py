"""What a PaddleJob of batch.paddlepaddle.org has in its spec and status: the source of its schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends.conditions import Condition
from pliant.frontends.crd import TEMPLATE, told
from pliant.frontends.results import MemberFailure, Progress
from pliant.frontends.scaling import GroupScaling
from pliant.model.state import Time

MOST_MEMBERS = 10_000
PS, WORKER, HETER = "ps", "worker", "heter"
ROLES = (PS, WORKER, HETER)

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS, extra_json_schema={"format": "int32"})]
Gloo = Annotated[int, Meta(ge=0, le=2)]


class CleanPods(StrEnum):
    """At which end pods and services go."""

    ALWAYS = "Always"
    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ON_COMPLETION = "OnCompletion"


class Intranet(StrEnum):
    """By which network members reach each other."""

    POD_IP = "PodIP"
    SERVICE = "Service"
    HOST = "Host"


class SchedulingPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the members are to be placed."""

    min_available: Annotated[Count | None, told("How many must start together; not read.")] = None
    queue: Annotated[str, told("The queue; handed on to the pods for a scheduler that has queues.")] = ""
    priority_class: Annotated[str, told("The PriorityClass of the pods.")] = ""
    min_resources: Annotated[dict[str, Any], told("What they take up at least; not read.", nullable=True)] = {}


class RoleSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of one role."""

    replicas: Annotated[Size | None, told("How many there are. Default: 1.")] = None
    requests: Annotated[
        Size | None,
        told("The fewest workers there may be. With `limits`, the autoscaler may choose between them."),
    ] = None
    limits: Annotated[Size | None, told("The most workers there may be; more than 0 makes the job elastic.")] = (
        None
    )
    template: Annotated[dict[str, Any], TEMPLATE, told("Their pods.")]


class HeterSpec(RoleSpec, frozen=True, kw_only=True, rename="camel"):
    """The heterogeneous workers."""

    # Three whole templates would not fit into what kubectl remembers of a definition.
    template: Annotated[dict[str, Any], told("Their pods; checked by the operator, not by the API server.")]


class PaddleJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    clean_pod_policy: Annotated[
        CleanPods | None,
        told("""At which end all pods and services are deleted: Always, Never, OnFailure, or OnCompletion (the
        default). Those that still run go at any end."""),
    ] = None
    intranet: Annotated[
        Intranet | None,
        told("""By which network members reach each other: their own (PodIP, the default, and Service) or the
        nodes' (Host)."""),
    ] = None
    with_gloo: Annotated[
        Gloo | None, told("Whether gloo is used beside servers: 0 no, 1 by workers, 2 by servers, too.")
    ] = None
    elastic: Annotated[
        Count | None, told("Any number, 0 as well, lets the number of members be changed while they train.")
    ] = None
    scheduling_policy: Annotated[SchedulingPolicy | None, told("How the members are to be placed.")] = None
    suspend: Annotated[
        bool,
        told("Whether the job rests: its pods are deleted, its place is kept. Only then templates may change."),
    ] = False
    managed_by: Annotated[str, told("Who looks after the job; others than us are left to do so.")] = ""
    sample_set_ref: Annotated[
        dict[str, Any] | None, told("Not served: mount the volume in the templates instead.")
    ] = None
    ps: Annotated[RoleSpec | None, told("The parameter servers.")] = None
    worker: Annotated[RoleSpec | None, told("The workers; the job ends when they have.")] = None
    heter: Annotated[HeterSpec | None, told("The heterogeneous workers.")] = None

    @property
    def roles(self) -> dict[str, RoleSpec]:
        """What is written of each role."""
        every: dict[str, RoleSpec | None] = {PS: self.ps, WORKER: self.worker, HETER: self.heter}
        return {name: role for name, role in every.items() if role is not None}


Spec = Annotated[
    PaddleJobSpec,
    told(
        "What is to be trained, and how.",
        rules={
            "worker.requests must be at most worker.limits": "!has(self.worker) || !has(self.worker.requests)"
            " || !has(self.worker.limits) || self.worker.limits == 0"
            " || self.worker.requests <= self.worker.limits",
            "needs a worker or a ps": "has(self.worker) || has(self.ps) || has(self.heter)",
        },
    ),
]


class PodReference(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where to find a pod."""

    api_version: Annotated[str, told("v1")] = "v1"
    kind: Annotated[str, told("Pod")] = "Pod"
    namespace: Annotated[str, told("Its namespace.")] = ""
    name: Annotated[str, told("Its name.")]
    uid: Annotated[str, told("Which incarnation of it.")] = ""


class RoleStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the members of one role are."""

    pending: Annotated[int, told("Not placed on a node yet.")] = 0
    starting: Annotated[int, told("Placed, not running yet; or on their way out or back in a restart.")] = 0
    running: Annotated[int, told("Running.")] = 0
    failed: Annotated[int, told("Ended badly.")] = 0
    succeeded: Annotated[int, told("Ended well.")] = 0
    unknown: Annotated[int, told("Not used.")] = 0
    refs: Annotated[tuple[PodReference, ...], told("Their pods; of very many, the first.", nullable=True)] = ()
    replicas: Annotated[int, told("Members that are there or on their way.")] = 0
    selector: Annotated[str, told("Labels of their pods.")] = ""


class PaddleJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    phase: Annotated[
        str, told("Pending, Starting, Running, Restarting, Suspended, or one of the ends: Completed, Failed.")
    ] = ""
    mode: Annotated[str, told("PS with servers; else Collective, or Single for one worker alone.")] = ""
    ps: Annotated[RoleStatus | None, told("How the servers are.")] = None
    worker: Annotated[RoleStatus | None, told("How the workers are.")] = None
    heter: Annotated[RoleStatus | None, told("How the heterogeneous workers are.")] = None
    start_time: Annotated[Time | None, told("When all members first ran.")] = None
    completion_time: Annotated[Time | None, told("When its end was decided.")] = None
    reason: Annotated[str, told("One word for the phase, for machines.")] = ""
    message: Annotated[str, told("Why the job is where it is, for people.")] = ""
    restarts: Annotated[int | None, told("Restarts of all roles together.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        told("Every phase passed, in order of the latest passage; the last is True.", nullable=True),
    ] = ()
    first_cause: Annotated[
        MemberFailure | None, told("The earliest failure behind the end or, until then, the latest restart.")
    ] = None
    progress: Annotated[Progress | None, told("How far the training has come, as its members report.")] = None
    scaling: Annotated[
        tuple[GroupScaling, ...], told("Sizes that may change, and why they are what they are.")
    ] = ()
    last_reconcile_time: Annotated[Time | None, told("When this status was last written.")] = None
    pliant: Annotated[dict[str, Any], told("What the operator must not forget; not for reading.")] = {}
