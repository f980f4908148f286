"""What a PaddleJob of batch.paddlepaddle.org has in its spec and status: the source of its schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends.crd import POD_TEMPLATE, field_doc
from pliant.frontends.scaling import GroupScalingStatus
from pliant.frontends.status.conditions import PhaseCondition
from pliant.frontends.status.results import ProgressStatus, ReplicaFailureStatus
from pliant.model.state import Timestamp

MAX_REPLICAS = 10_000
PS, WORKER, HETER = "ps", "worker", "heter"
ROLES = (PS, WORKER, HETER)

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS, extra_json_schema={"format": "int32"})]
GlooMode = Annotated[int, Meta(ge=0, le=2)]


class BatchPaddleCleanPolicy(StrEnum):
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


class BatchPaddleSchedulingPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the members are to be placed."""

    min_available: Annotated[Count | None, field_doc("How many must start together; not read.")] = None
    queue: Annotated[str, field_doc("The queue; handed on to the pods for a scheduler that has queues.")] = ""
    priority_class: Annotated[str, field_doc("The PriorityClass of the pods.")] = ""
    min_resources: Annotated[dict[str, Any], field_doc("What they take up at least; not read.", nullable=True)] = {}


class BatchPaddleRoleSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of one role."""

    replicas: Annotated[GroupSize | None, field_doc("How many there are. Default: 1.")] = None
    requests: Annotated[
        GroupSize | None,
        field_doc("The fewest workers there may be. With `limits`, the autoscaler may choose between them."),
    ] = None
    limits: Annotated[
        GroupSize | None, field_doc("The most workers there may be; more than 0 makes the job elastic.")
    ] = None
    template: Annotated[dict[str, Any], POD_TEMPLATE, field_doc("Their pods.")]


class HeterWorkerSpec(BatchPaddleRoleSpec, frozen=True, kw_only=True, rename="camel"):
    """The heterogeneous workers."""

    # Three whole templates would not fit into what kubectl remembers of a definition.
    template: Annotated[dict[str, Any], field_doc("Their pods; checked by the operator, not by the API server.")]


class BatchPaddleJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    clean_pod_policy: Annotated[
        BatchPaddleCleanPolicy | None,
        field_doc("""At which end all pods and services are deleted: Always, Never, OnFailure, or OnCompletion (the
        default). Those that still run go at any end."""),
    ] = None
    intranet: Annotated[
        Intranet | None,
        field_doc("""By which network members reach each other: their own (PodIP, the default, and Service) or the
        nodes' (Host)."""),
    ] = None
    with_gloo: Annotated[
        GlooMode | None, field_doc("Whether gloo is used beside servers: 0 no, 1 by workers, 2 by servers, too.")
    ] = None
    elastic: Annotated[
        Count | None, field_doc("Any number, 0 as well, lets the number of members be changed while they train.")
    ] = None
    scheduling_policy: Annotated[BatchPaddleSchedulingPolicy | None, field_doc("How the members are to be placed.")] = (
        None
    )
    suspend: Annotated[
        bool,
        field_doc("Whether the job rests: its pods are deleted, its place is kept. Only then templates may change."),
    ] = False
    managed_by: Annotated[str, field_doc("Who looks after the job; others than us are left to do so.")] = ""
    sample_set_ref: Annotated[
        dict[str, Any] | None, field_doc("Not served: mount the volume in the templates instead.")
    ] = None
    ps: Annotated[BatchPaddleRoleSpec | None, field_doc("The parameter servers.")] = None
    worker: Annotated[BatchPaddleRoleSpec | None, field_doc("The workers; the job ends when they have.")] = None
    heter: Annotated[HeterWorkerSpec | None, field_doc("The heterogeneous workers.")] = None

    @property
    def roles(self) -> dict[str, BatchPaddleRoleSpec]:
        """What is written of each role."""
        every: dict[str, BatchPaddleRoleSpec | None] = {PS: self.ps, WORKER: self.worker, HETER: self.heter}
        return {name: role for name, role in every.items() if role is not None}


BatchPaddleJobSpecSchema = Annotated[
    BatchPaddleJobSpec,
    field_doc(
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

    api_version: Annotated[str, field_doc("v1")] = "v1"
    kind: Annotated[str, field_doc("Pod")] = "Pod"
    namespace: Annotated[str, field_doc("Its namespace.")] = ""
    name: Annotated[str, field_doc("Its name.")]
    uid: Annotated[str, field_doc("Which incarnation of it.")] = ""


class BatchPaddleRoleStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the members of one role are."""

    pending: Annotated[int, field_doc("Not placed on a node yet.")] = 0
    starting: Annotated[int, field_doc("Placed, not running yet; or on their way out or back in a restart.")] = 0
    running: Annotated[int, field_doc("Running.")] = 0
    failed: Annotated[int, field_doc("Ended badly.")] = 0
    succeeded: Annotated[int, field_doc("Ended well.")] = 0
    unknown: Annotated[int, field_doc("Not used.")] = 0
    refs: Annotated[tuple[PodReference, ...], field_doc("Their pods; of very many, the first.", nullable=True)] = ()
    replicas: Annotated[int, field_doc("Members that are there or on their way.")] = 0
    selector: Annotated[str, field_doc("Labels of their pods.")] = ""


class BatchPaddleJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    phase: Annotated[
        str, field_doc("Pending, Starting, Running, Restarting, Suspended, or one of the ends: Completed, Failed.")
    ] = ""
    mode: Annotated[str, field_doc("PS with servers; else Collective, or Single for one worker alone.")] = ""
    ps: Annotated[BatchPaddleRoleStatus | None, field_doc("How the servers are.")] = None
    worker: Annotated[BatchPaddleRoleStatus | None, field_doc("How the workers are.")] = None
    heter: Annotated[BatchPaddleRoleStatus | None, field_doc("How the heterogeneous workers are.")] = None
    start_time: Annotated[Timestamp | None, field_doc("When all members first ran.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("When its end was decided.")] = None
    reason: Annotated[str, field_doc("One word for the phase, for machines.")] = ""
    message: Annotated[str, field_doc("Why the job is where it is, for people.")] = ""
    restarts: Annotated[int | None, field_doc("Restarts of all roles together.")] = None
    conditions: Annotated[
        tuple[PhaseCondition, ...],
        field_doc("Every phase passed, in order of the latest passage; the last is True.", nullable=True),
    ] = ()
    first_cause: Annotated[
        ReplicaFailureStatus | None,
        field_doc("The earliest failure behind the end or, until then, the latest restart."),
    ] = None
    progress: Annotated[ProgressStatus | None, field_doc("How far the training has come, as its members report.")] = (
        None
    )
    scaling: Annotated[
        tuple[GroupScalingStatus, ...], field_doc("Sizes that may change, and why they are what they are.")
    ] = ()
    last_reconcile_time: Annotated[Timestamp | None, field_doc("When this status was last written.")] = None
    pliant: Annotated[dict[str, Any], field_doc("What the operator must not forget; not for reading.")] = {}
