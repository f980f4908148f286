"""What an ElasticJob has in its spec and status: the source of its schema."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends.crd import TEMPLATE, Rule, told
from pliant.frontends.results import MemberFailure, Progress
from pliant.frontends.scaling import GroupScaling
from pliant.model.state import Time

MOST_MEMBERS = 10_000
MASTER = "dlrover-master"
WORKER, PS, CHIEF, EVALUATOR = "worker", "ps", "chief", "evaluator"
PARAMETER_SERVERS, ALLREDUCE, CUSTOM = "ParameterServerStrategy", "AllreduceStrategy", "CustomStrategy"

Count = Annotated[int, Meta(ge=0, le=2**31 - 1, extra_json_schema={"format": "int32"})]
Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS, extra_json_schema={"format": "int32"})]


class ReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of one type."""

    replicas: Annotated[Size | None, told("How many there are; left out, the job's master chooses.")] = None
    min_replicas: Annotated[Size | None, told("The fewest there may be, whoever asks.")] = None
    max_replicas: Annotated[
        Size | None, told("The most there may be; with it, `replicas` is where the master begins.")
    ] = None
    template: Annotated[
        dict[str, Any] | None,
        TEMPLATE,
        told(
            "Their pods. Of several containers the one named `main` counts. Chiefs and evaluators may do without."
        ),
    ] = None
    restart_policy: Annotated[str, told("Not read; see restartPolicy in the template of workers.")] = ""
    restart_count: Annotated[
        Count | None, told("How often one is made again; of the master also after evictions. Default: 3.")
    ] = None
    auto_scale: Annotated[
        bool | None, told("Whether the master may change what is written here. Default: true.")
    ] = None
    restart_timeout: Annotated[int | None, told("Not read.")] = None
    priority: Annotated[str, told("The priority class of the pods: high or low; or a share such as 0.5.")] = ""
    batch_scheduler: Annotated[str, told("Not read: write schedulerName into the template.")] = field(
        default="", name="BatchScheduler"
    )
    critical_nodes: Annotated[str, told("For the master: all, none, or ranks and relaunches such as 0:3,1:0.")] = (
        ""
    )


Replica = Annotated[
    ReplicaSpec,
    told(
        "The members of one type.",
        rules={
            "minReplicas must be at most maxReplicas": Rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                ".minReplicas",
            ),
        },
    ),
]


class ElasticJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    distribution_strategy: Annotated[
        str,
        told("ParameterServerStrategy (the default) or AllreduceStrategy; a master of your own may know others."),
    ] = ""
    resource_limits: Annotated[
        dict[str, Any], told("What all members together may ask for: cpu, memory, gpu.", nullable=True)
    ] = {}
    optimize_mode: Annotated[
        str, told("Who chooses sizes: single-job (the default) the master, cluster a Brain; manual nobody.")
    ] = ""
    brain_service: Annotated[str, told("Where that Brain is, for DLRover's masters.")] = ""
    replica_specs: Annotated[
        dict[str, Replica], told("The members by type: worker, ps, chief, evaluator, dlrover-master.")
    ]
    envs: Annotated[dict[str, Any], told("Not read: write env into the templates.", nullable=True)] = {}
    suspend: Annotated[bool, told("Whether the job rests: its members go, plans are held, its master waits.")] = (
        False
    )
    suspended: Annotated[bool, told("Another word for suspend.")] = False
    managed_by: Annotated[str, told("Who looks after the job; others than us are left to do so.")] = ""
    enable_dynamic_sharding: Annotated[bool, told("Not read: shards are there for whoever asks for them.")] = False
    enable_elastic_scheduling: Annotated[bool, told("Not read; see autoScale.")] = False


class JobCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that can be said about the job."""

    type: Annotated[
        str, told("Created, Pending, Running, Restarting, Scaling, Suspended, Succeeded, Failed, Invalid.")
    ]
    status: Annotated[str, told("True or False.")]
    reason: Annotated[str, told("One word for machines.")] = ""
    message: Annotated[str, told("What happened, for people.")] = ""
    last_update_time: Annotated[Time | None, told("When the message last changed.")] = None
    last_transition_time: Annotated[Time | None, told("When the status last changed.")] = None


class ReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the members of one type are."""

    initial: Annotated[int, told("Wanted, and not made yet.")] = 0
    pending: Annotated[int, told("Made, not running yet.")] = 0
    active: Annotated[int, told("Running.")] = 0
    succeeded: Annotated[int, told("Ended well.")] = 0
    failed: Annotated[int, told("Ended badly, or lost.")] = 0
    label_selector: Annotated[dict[str, Any] | None, told("Not used.")] = None


class InnerStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is, in detail."""

    conditions: Annotated[tuple[JobCondition, ...], told("What can be said of the job.", nullable=True)] = ()
    replica_statuses: Annotated[
        dict[str, ReplicaStatus], told("How the members are, by type.", nullable=True)
    ] = {}
    start_time: Annotated[Time | None, told("When the job was accepted.")] = None
    completion_time: Annotated[Time | None, told("When its end was decided.")] = None
    last_reconcile_time: Annotated[Time | None, told("When this status was last written.")] = None


class ElasticJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    phase: Annotated[str, told("Created, Pending, Running, Scaling, Suspended, Succeeded or Failed.")] = ""
    message: Annotated[str, told("Why the job is where it is, for people.")] = ""
    scale_plan: Annotated[str, told("The plan that is being carried out, or was last.")] = ""
    workers: Annotated[str, told("Workers that run, of those wanted.")] = ""
    replicas: Annotated[int | None, told("Workers that there are.")] = None
    selector: Annotated[str, told("Labels of the workers' pods.")] = ""
    restarts: Annotated[int | None, told("How often the master was made again.")] = None
    status: Annotated[InnerStatus | None, told("How the job is, in detail.")] = None
    scaling: Annotated[tuple[GroupScaling, ...], told("Sizes, and why they are what they are.")] = ()
    first_cause: Annotated[MemberFailure | None, told("The failure behind the end, or the latest restart.")] = None
    progress: Annotated[Progress | None, told("How far the training has come, as its members report.")] = None
    pliant: Annotated[dict[str, Any], told("What the operator must not forget; not for reading.")] = {}
