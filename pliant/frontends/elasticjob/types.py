"""What an ElasticJob has in its spec and status: the source of its schema."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends.crd import POD_TEMPLATE, ValidationRule, field_doc
from pliant.frontends.scaling import GroupScalingStatus
from pliant.frontends.status.results import ProgressStatus, ReplicaFailureStatus
from pliant.model.state import Timestamp

MAX_REPLICAS = 10_000
MASTER = "dlrover-master"
WORKER, PS, CHIEF, EVALUATOR = "worker", "ps", "chief", "evaluator"
PARAMETER_SERVER_STRATEGY, ALLREDUCE_STRATEGY, CUSTOM_STRATEGY = (
    "ParameterServerStrategy",
    "AllreduceStrategy",
    "CustomStrategy",
)

Count = Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"format": "int32"})]
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS, extra_json_schema={"format": "int32"})]


class ElasticReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of one type."""

    replicas: Annotated[GroupSize | None, field_doc("How many there are; left out, the job's master chooses.")] = None
    min_replicas: Annotated[GroupSize | None, field_doc("The fewest there may be, whoever asks.")] = None
    max_replicas: Annotated[
        GroupSize | None, field_doc("The most there may be; with it, `replicas` is where the master begins.")
    ] = None
    template: Annotated[
        dict[str, Any] | None,
        POD_TEMPLATE,
        field_doc(
            "Their pods. Of several containers the one named `main` counts. Chiefs and evaluators may do without."
        ),
    ] = None
    restart_policy: Annotated[str, field_doc("Not read; see restartPolicy in the template of workers.")] = ""
    restart_count: Annotated[
        Count | None, field_doc("How often one is made again; of the master also after evictions. Default: 3.")
    ] = None
    auto_scale: Annotated[
        bool | None, field_doc("Whether the master may change what is written here. Default: true.")
    ] = None
    restart_timeout: Annotated[int | None, field_doc("Not read.")] = None
    priority: Annotated[str, field_doc("The priority class of the pods: high or low; or a share such as 0.5.")] = ""
    batch_scheduler: Annotated[str, field_doc("Not read: write schedulerName into the template.")] = field(
        default="", name="BatchScheduler"
    )
    critical_nodes: Annotated[str, field_doc("For the master: all, none, or ranks and relaunches such as 0:3,1:0.")] = (
        ""
    )


ElasticReplicaSchema = Annotated[
    ElasticReplicaSpec,
    field_doc(
        "The members of one type.",
        rules={
            "minReplicas must be at most maxReplicas": ValidationRule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                ".minReplicas",
            )
        },
    ),
]


class ElasticJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    distribution_strategy: Annotated[
        str,
        field_doc("ParameterServerStrategy (the default) or AllreduceStrategy; a master of your own may know others."),
    ] = ""
    resource_limits: Annotated[
        dict[str, Any], field_doc("What all members together may ask for: cpu, memory, gpu.", nullable=True)
    ] = {}
    optimize_mode: Annotated[
        str, field_doc("Who chooses sizes: single-job (the default) the master, cluster a Brain; manual nobody.")
    ] = ""
    brain_service: Annotated[str, field_doc("Where that Brain is, for DLRover's masters.")] = ""
    replica_specs: Annotated[
        dict[str, ElasticReplicaSchema], field_doc("The members by type: worker, ps, chief, evaluator, dlrover-master.")
    ]
    envs: Annotated[dict[str, Any], field_doc("Not read: write env into the templates.", nullable=True)] = {}
    suspend: Annotated[bool, field_doc("Whether the job rests: its members go, plans are held, its master waits.")] = (
        False
    )
    suspended: Annotated[bool, field_doc("Another word for suspend.")] = False
    managed_by: Annotated[str, field_doc("Who looks after the job; others than us are left to do so.")] = ""
    enable_dynamic_sharding: Annotated[bool, field_doc("Not read: shards are there for whoever asks for them.")] = False
    enable_elastic_scheduling: Annotated[bool, field_doc("Not read; see autoScale.")] = False


class ElasticJobCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that can be said about the job."""

    type: Annotated[
        str, field_doc("Created, Pending, Running, Restarting, Scaling, Suspended, Succeeded, Failed, Invalid.")
    ]
    status: Annotated[str, field_doc("True or False.")]
    reason: Annotated[str, field_doc("One word for machines.")] = ""
    message: Annotated[str, field_doc("What happened, for people.")] = ""
    last_update_time: Annotated[Timestamp | None, field_doc("When the message last changed.")] = None
    last_transition_time: Annotated[Timestamp | None, field_doc("When the status last changed.")] = None


class ElasticReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the members of one type are."""

    initial: Annotated[int, field_doc("Wanted, and not made yet.")] = 0
    pending: Annotated[int, field_doc("Made, not running yet.")] = 0
    active: Annotated[int, field_doc("Running.")] = 0
    succeeded: Annotated[int, field_doc("Ended well.")] = 0
    failed: Annotated[int, field_doc("Ended badly, or lost.")] = 0
    label_selector: Annotated[dict[str, Any] | None, field_doc("Not used.")] = None


class ElasticJobInnerStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is, in detail."""

    conditions: Annotated[
        tuple[ElasticJobCondition, ...], field_doc("What can be said of the job.", nullable=True)
    ] = ()
    replica_statuses: Annotated[
        dict[str, ElasticReplicaStatus], field_doc("How the members are, by type.", nullable=True)
    ] = {}
    start_time: Annotated[Timestamp | None, field_doc("When the job was accepted.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("When its end was decided.")] = None
    last_reconcile_time: Annotated[Timestamp | None, field_doc("When this status was last written.")] = None


class ElasticJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    phase: Annotated[str, field_doc("Created, Pending, Running, Scaling, Suspended, Succeeded or Failed.")] = ""
    message: Annotated[str, field_doc("Why the job is where it is, for people.")] = ""
    scale_plan: Annotated[str, field_doc("The plan that is being carried out, or was last.")] = ""
    workers: Annotated[str, field_doc("Workers that run, of those wanted.")] = ""
    replicas: Annotated[int | None, field_doc("Workers that there are.")] = None
    selector: Annotated[str, field_doc("Labels of the workers' pods.")] = ""
    restarts: Annotated[int | None, field_doc("How often the master was made again.")] = None
    status: Annotated[ElasticJobInnerStatus | None, field_doc("How the job is, in detail.")] = None
    scaling: Annotated[tuple[GroupScalingStatus, ...], field_doc("Sizes, and why they are what they are.")] = ()
    first_cause: Annotated[
        ReplicaFailureStatus | None, field_doc("The failure behind the end, or the latest restart.")
    ] = None
    progress: Annotated[ProgressStatus | None, field_doc("How far the training has come, as its members report.")] = (
        None
    )
    pliant: Annotated[dict[str, Any], field_doc("What the operator must not forget; not for reading.")] = {}
