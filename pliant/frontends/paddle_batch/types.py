"""The spec and status of a PaddleJob of batch.paddlepaddle.org; the CRD schema is generated from these structs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends import fields
from pliant.frontends.crd import POD_TEMPLATE_MARKER, field_doc
from pliant.frontends.fields import Count, GroupSize

PS, WORKER, HETER = "ps", "worker", "heter"
ROLES = (PS, WORKER, HETER)

GlooMode = Annotated[int, Meta(ge=0, le=2)]


class BatchPaddleCleanPolicy(StrEnum):
    ALWAYS = "Always"
    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ON_COMPLETION = "OnCompletion"
    ON_FAILED = "OnFailed"
    """Never: an example of paddle-operator contains this value, which has no effect there either."""


class Intranet(StrEnum):
    POD_IP = "PodIP"
    SERVICE = "Service"
    HOST = "Host"


class BatchPaddleSchedulingPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Scheduling of the pods."""

    min_available: Annotated[
        Count | None, field_doc("Minimum number of pods to start together.", ignored=fields.NO_POD_GROUP)
    ] = None
    queue: Annotated[str, field_doc("Queue of the pods, for schedulers that have queues.")] = ""
    priority_class: Annotated[str, field_doc("PriorityClass of the pods, if it exists.")] = ""
    min_resources: Annotated[
        dict[str, Any], field_doc("Minimum resources of the job.", ignored=fields.NO_POD_GROUP, nullable=True)
    ] = {}


class BatchPaddleRoleSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one role."""

    replicas: Annotated[GroupSize | None, field_doc("Number of replicas. Default: 1.")] = None
    requests: Annotated[
        GroupSize | None,
        field_doc("Minimum number of workers. If `limits` is set too, the autoscaler may change the size in between."),
    ] = None
    limits: Annotated[GroupSize | None, field_doc("Maximum number of workers; above 0, the job is elastic.")] = None
    template: Annotated[dict[str, Any], POD_TEMPLATE_MARKER, field_doc("Template of the pods.")]


class HeterWorkerSpec(BatchPaddleRoleSpec, frozen=True, kw_only=True, rename="camel"):
    """The heterogeneous workers."""

    # Three template schemas exceed the size limit of the last-applied annotation of kubectl.
    template: Annotated[
        dict[str, Any], field_doc("Template of the pods. The operator validates it, not the API server.")
    ]


class BatchPaddleJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    clean_pod_policy: Annotated[
        BatchPaddleCleanPolicy | None,
        field_doc("""When all pods and services of a finished job are deleted: Always, Never, OnFailure, or OnCompletion
        (the default). Running pods are always deleted."""),
    ] = None
    intranet: Annotated[
        Intranet | None,
        field_doc("Network of the replicas: that of the pods (PodIP, the default, or Service) or of the nodes (Host)."),
    ] = None
    with_gloo: Annotated[GlooMode | None, field_doc("Gloo with servers: 0 none, 1 workers, 2 workers and servers.")] = (
        None
    )
    elastic: Annotated[Count | None, field_doc("If set (even to 0), the size may change during training.")] = None
    scheduling_policy: Annotated[BatchPaddleSchedulingPolicy | None, field_doc("Scheduling of the pods.")] = None
    suspend: fields.Suspend = False
    managed_by: fields.ManagedBy = ""
    sample_set_ref: Annotated[dict[str, Any] | None, field_doc("Not supported; mount the volume instead.")] = None
    ps: Annotated[BatchPaddleRoleSpec | None, field_doc("The parameter servers.")] = None
    worker: Annotated[BatchPaddleRoleSpec | None, field_doc("The workers. The job completes when they succeed.")] = None
    heter: Annotated[HeterWorkerSpec | None, field_doc("The heterogeneous workers.")] = None

    @property
    def roles(self) -> dict[str, BatchPaddleRoleSpec]:
        """The specs of the roles that the job has."""
        specs: dict[str, BatchPaddleRoleSpec | None] = {PS: self.ps, WORKER: self.worker, HETER: self.heter}
        return {name: role for name, role in specs.items() if role is not None}


BatchPaddleJobSpecSchema = Annotated[
    BatchPaddleJobSpec,
    field_doc(
        "Specification of the desired behavior of the job.",
        rules={
            "worker.requests must be at most worker.limits": "!has(self.worker) || !has(self.worker.requests)"
            " || !has(self.worker.limits) || self.worker.limits == 0"
            " || self.worker.requests <= self.worker.limits",
            "worker or ps is required": "has(self.worker) || has(self.ps) || has(self.heter)",
        },
    ),
]


class PodReference(Struct, frozen=True, kw_only=True, rename="camel"):
    """Reference to a pod."""

    api_version: Annotated[str, field_doc("API version of the referent: v1.")] = "v1"
    kind: Annotated[str, field_doc("Kind of the referent: Pod.")] = "Pod"
    namespace: Annotated[str, field_doc("Namespace of the pod.")] = ""
    name: Annotated[str, field_doc("Name of the pod.")]
    uid: Annotated[str, field_doc("UID of the pod.")] = ""


class BatchPaddleRoleStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Number of replicas of a role by state."""

    pending: fields.PendingCount = 0
    starting: Annotated[int, field_doc("Replicas that are scheduled and not running yet, or being restarted.")] = 0
    running: fields.ActiveCount = 0
    failed: fields.FailedCount = 0
    succeeded: fields.SucceededCount = 0
    unknown: Annotated[int, field_doc("Not set.")] = 0
    refs: Annotated[tuple[PodReference, ...], field_doc("References to the pods, at most 200.", nullable=True)] = ()
    replicas: Annotated[int, field_doc("Replicas that are pending, starting or running.")] = 0
    selector: Annotated[str, field_doc("Label selector of the pods.")] = ""


class BatchPaddleJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the job."""

    phase: Annotated[
        str,
        field_doc("""Pending, Starting, Running, Restarting, Suspended, or a final phase: Completed, Failed. Invalid if
        the operator rejects the spec of a new job."""),
    ] = ""
    mode: Annotated[str, field_doc("PS with parameter servers; else Collective, or Single for one worker.")] = ""
    ps: Annotated[BatchPaddleRoleStatus | None, field_doc("Status of the parameter servers.")] = None
    worker: Annotated[BatchPaddleRoleStatus | None, field_doc("Status of the workers.")] = None
    heter: Annotated[BatchPaddleRoleStatus | None, field_doc("Status of the heterogeneous workers.")] = None
    start_time: fields.RunningTime = None
    completion_time: fields.CompletionTime = None
    reason: fields.PhaseReason = ""
    message: fields.Message = ""
    restarts: fields.Restarts = None
    conditions: fields.PhaseConditions = ()
    root_cause: fields.RootCause = None
    progress: fields.Progress = None
    scaling: fields.Scaling = ()
    last_reconcile_time: fields.LastReconcileTime = None
    pliant: fields.EngineStateData = {}
