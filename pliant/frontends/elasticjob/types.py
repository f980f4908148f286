"""The spec and status of an ElasticJob; the CRD schema is generated from these structs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends import fields
from pliant.frontends.crd import POD_TEMPLATE_MARKER, ValidationRule, field_doc
from pliant.frontends.fields import GroupSize

MASTER_REPLICA_TYPE = "dlrover-master"
WORKER, PS, CHIEF, EVALUATOR = "worker", "ps", "chief", "evaluator"
PARAMETER_SERVER_STRATEGY = "ParameterServerStrategy"
ALLREDUCE_STRATEGY = "AllreduceStrategy"
CUSTOM_STRATEGY = "CustomStrategy"
_STRATEGY_ALIASES = {
    "Allreduce": ALLREDUCE_STRATEGY,
    "ParameterServer": PARAMETER_SERVER_STRATEGY,
    "Custom": CUSTOM_STRATEGY,
}
"""The names in DLRover's examples before its first release."""

RestartCount = Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"format": "int32"})]


class ElasticReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one type."""

    replicas: Annotated[GroupSize | None, field_doc("Number of replicas. Default: chosen by the job's master.")] = None
    min_replicas: Annotated[GroupSize | None, field_doc("Minimum number of replicas.")] = None
    max_replicas: Annotated[GroupSize | None, field_doc("Maximum number; `replicas` is then the initial size.")] = None
    template: Annotated[
        dict[str, Any] | None,
        POD_TEMPLATE_MARKER,
        field_doc("""Template of the pods. The main container is the one named `main`, else the first. Chief and
        evaluator default to the template of the workers."""),
    ] = None
    restart_policy: Annotated[
        str, field_doc("Restart policy of the pods.", ignored="set restartPolicy in the template of the workers")
    ] = ""
    restart_count: Annotated[
        RestartCount | None, field_doc("Maximum number of relaunches; of the master including evictions. Default: 3.")
    ] = None
    auto_scale: Annotated[bool | None, field_doc("Whether the master may resize this type. Default: true.")] = None
    restart_timeout: Annotated[int | None, field_doc("Time-out of a restart.", ignored="a restart has no time-out")] = (
        None
    )
    priority: Annotated[str, field_doc("Priority class of the pods: high, low, or a fraction such as 0.5.")] = ""
    batch_scheduler: Annotated[
        str, field_doc("Scheduler of the pods.", ignored="set schedulerName in the template")
    ] = field(default="", name="BatchScheduler")
    critical_nodes: Annotated[str, field_doc("Critical replicas: all, none, or rank:relaunches such as 0:3,1:0.")] = ""


ElasticReplicaSchema = Annotated[
    ElasticReplicaSpec,
    field_doc(
        "The replicas of one type.",
        rules={
            "minReplicas must be at most maxReplicas": ValidationRule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                ".minReplicas",
            )
        },
    ),
]


class ElasticJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    distribution_strategy: Annotated[
        str, field_doc("ParameterServerStrategy (default), AllreduceStrategy or CustomStrategy.")
    ] = ""
    resource_limits: Annotated[
        dict[str, Any], field_doc("Maximum resources of all replicas together: cpu, memory, gpu.", nullable=True)
    ] = {}
    optimize_mode: Annotated[
        str,
        field_doc(
            "Who sets sizes: the master (single-job, the default), a Brain service (cluster), or users (manual)."
        ),
    ] = ""
    brain_service: Annotated[str, field_doc("Address of the Brain service, for DLRover masters.")] = ""
    replica_specs: Annotated[
        dict[str, ElasticReplicaSchema], field_doc("Replicas by type: worker, ps, chief, evaluator, dlrover-master.")
    ]
    envs: Annotated[
        dict[str, Any], field_doc("Environment variables.", ignored="set env in the templates", nullable=True)
    ] = {}
    suspend: Annotated[bool, field_doc("Whether to suspend the job: pods are deleted, scale plans wait.")] = False
    suspended: Annotated[bool, field_doc("Alias of suspend.")] = False
    managed_by: fields.ManagedBy = ""
    enable_dynamic_sharding: Annotated[bool, field_doc("Has no effect; data shards are always available.")] = False
    enable_elastic_scheduling: Annotated[bool, field_doc("Has no effect; set autoScale.")] = False


def distribution_strategy(spec: ElasticJobSpec) -> str:
    """Return the strategy under its current name; it is not validated."""
    strategy = spec.distribution_strategy or PARAMETER_SERVER_STRATEGY
    return _STRATEGY_ALIASES.get(strategy, strategy)


class ElasticReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Number of replicas of a type by state."""

    initial: Annotated[int, field_doc("Replicas without a pod.")] = 0
    pending: Annotated[int, field_doc("Replicas with a pod that is not running yet.")] = 0
    active: fields.ActiveCount = 0
    succeeded: fields.SucceededCount = 0
    failed: Annotated[int, field_doc("Replicas that failed or were lost.")] = 0
    label_selector: Annotated[dict[str, Any] | None, field_doc("Not set.")] = None


class ElasticJobInnerStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Conditions and replica statuses of the job."""

    conditions: fields.JobConditions = ()
    replica_statuses: Annotated[
        dict[str, ElasticReplicaStatus], field_doc("Number of replicas by type and state.", nullable=True)
    ] = {}
    start_time: fields.StartTime = None
    completion_time: fields.CompletionTime = None
    last_reconcile_time: fields.LastReconcileTime = None


class ElasticJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the job."""

    phase: Annotated[
        str,
        field_doc("""Created, Pending, Running, Scaling, Suspended, Succeeded or Failed. Invalid if the operator rejects
        the spec of a new job."""),
    ] = ""
    message: fields.Message = ""
    scale_plan: Annotated[str, field_doc("The current or latest scale plan.")] = ""
    workers: Annotated[str, field_doc("Running workers and desired workers: 3/4.")] = ""
    replicas: Annotated[int | None, field_doc("Number of workers.")] = None
    selector: fields.Selector = ""
    restarts: Annotated[int | None, field_doc("Number of restarts of the master.")] = None
    conditions: fields.JobConditions = ()
    status: Annotated[
        ElasticJobInnerStatus | None,
        field_doc("Replica statuses of the job, and its conditions as DLRover nests them."),
    ] = None
    scaling: fields.Scaling = ()
    root_cause: fields.RootCause = None
    progress: fields.Progress = None
    pliant: fields.EngineStateData = {}
