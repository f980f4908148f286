"""AITrainingJob as users write and read it: the source of its schema and of `kubectl explain`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends.crd import POD_TEMPLATE, ValidationRule, field_doc
from pliant.frontends.scaling import GroupScalingStatus
from pliant.frontends.status.conditions import PhaseCondition
from pliant.frontends.status.results import PhaseDurations, ProgressStatus, ReplicaFailureStatus
from pliant.model.job import CleanPodPolicy, EndPolicy, RestartPolicy, RestartScope
from pliant.model.state import Timestamp

MAX_GROUPS = 64
"""Groups in one job; a bound lets the API server reckon what its rules cost."""

MAX_REPLICAS = 10_000
"""Members in one job: a slip of the pen must not keep the operator from everybody else's jobs."""


class JobEndPolicy(StrEnum):
    """Which groups speak for the job."""

    ANY = "Any"
    ALL = "All"


class EdlPolicy(StrEnum):
    """Who may change a group's size."""

    AUTO = "Auto"
    MANUAL = "Manual"
    NEVER = "Never"


Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]


class AITrainingReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """One group of like pods."""

    replicas: Annotated[GroupSize | None, field_doc("How many pods the group has. Default: minReplicas, else 1.")] = (
        None
    )
    min_replicas: Annotated[GroupSize | None, field_doc("The smallest size a resize may bring the group to.")] = None
    max_replicas: Annotated[Count | None, field_doc("The largest size a resize may bring the group to.")] = None
    edl_policy: Annotated[
        EdlPolicy | None,
        field_doc("""Who may change the size between the bounds: the autoscaler as well (Auto), only people (Manual),
        nobody (Never, which makes `kubectl scale` an error)."""),
    ] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        field_doc("""What leads to a restart: any failure (Always, OnFailure), the loss of a node (OnNodeFail), an exit
        code listed in spec.restartingExitCode (ExitCode), either of these two (OnNodeFailWithExitCode), or nothing
        (Never, the default). Where it is set the pods run with restartPolicy Never: a restart is a new pod."""),
    ] = None
    restart_scope: Annotated[
        RestartScope | None,
        field_doc("What a restart replaces: the pod, its group (Replica) or the whole job (All, the default)."),
    ] = None
    restart_limit: Annotated[Count | None, field_doc("How often the group may be restarted. Default: no limit.")] = None
    complete_policy: Annotated[
        EndPolicy | None,
        field_doc("""Whose success completes the group: any pod's, the first pod's (Rank0), all pods' (All, the
        default), or nobody's (None: the job does not wait for this group)."""),
    ] = None
    fail_policy: Annotated[
        EndPolicy | None,
        field_doc("""Whose failure, once no restart is left, fails the group: any pod's (Any, the default), the first
        pod's (Rank0), all pods' (All), or nobody's (None)."""),
    ] = None
    template: Annotated[
        dict[str, Any],
        POD_TEMPLATE,
        field_doc("""The pods of the group. Containers named aitj-* decide success and failure, and their ports named
        aitj-* are published; without such names all of them count."""),
    ]


AITrainingReplicaSchema = Annotated[
    AITrainingReplicaSpec,
    field_doc(
        "One group of like pods.",
        rules={
            "minReplicas must be at most maxReplicas": "!has(self.minReplicas) || !has(self.maxReplicas)"
            " || self.minReplicas <= self.maxReplicas",
            "replicas must be at least minReplicas": "!has(self.replicas) || !has(self.minReplicas)"
            " || self.minReplicas <= self.replicas",
            "replicas must be at most maxReplicas": "!has(self.replicas) || !has(self.maxReplicas)"
            " || self.replicas <= self.maxReplicas",
        },
    ),
]


class AITrainingElasticSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The size asked for by `kubectl scale`."""

    group: Annotated[
        str, field_doc("The group meant. Default: the only one with bounds, else the only one there is.")
    ] = ""
    replicas: Annotated[
        GroupSize | None,
        field_doc(
            "Its wanted size, kept within its bounds. Of this and the replicas of the group the later edit wins."
        ),
    ] = None


class AITrainingJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, by whom, and what happens when something goes wrong."""

    framework_type: Annotated[str, field_doc("The training framework: tensorflow, paddlepaddle, pytorch, mxnet, …")] = (
        ""
    )
    fault_tolerant: Annotated[
        bool,
        field_doc("""Whether a group with bounds may lose members for good and go on, as long as it keeps its first one
        and minReplicas."""),
    ] = False
    priority: Annotated[str, field_doc("A PriorityClass; also the label `priority` of the pods.")] = ""
    scheduler_name: Annotated[str, field_doc("The scheduler that places the pods.")] = ""
    time_limit: Annotated[
        Seconds | None,
        field_doc("""Seconds the job may run, counted from when all pods first ran, suspensions left out; then it ends
        as Timeout. May be edited while it runs."""),
    ] = None
    start_limit: Annotated[
        Seconds | None,
        field_doc("Seconds until all pods must run, counted from the start or the last resumption; else Timeout."),
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, field_doc("Seconds after its end at which the job itself is deleted. Default: never.")
    ] = None
    suspend: Annotated[
        bool,
        field_doc("""Whether the job is to hold nothing for now: its pods are deleted, its clock stands. Only then may
        templates be edited, and groups added or removed."""),
    ] = False
    managed_by: Annotated[
        str, field_doc("Who looks after the job, if not Pliant (`pliant`, the default): then Pliant leaves it alone.")
    ] = ""
    clean_pod_policy: Annotated[
        CleanPodPolicy | None,
        field_doc("""Which pods and services are deleted when the job ends: all (the default), those still Running, or
        none (None)."""),
    ] = None
    fail_policy: Annotated[
        JobEndPolicy | None,
        field_doc("Whether any failed group fails the job (Any, the default) or only all of them (All)."),
    ] = None
    complete_policy: Annotated[
        JobEndPolicy | None,
        field_doc("Whether any completed group completes the job (Any) or only all of them (All, the default)."),
    ] = None
    restarting_exit_code: Annotated[
        Any, field_doc('Exit codes that policies ExitCode and OnNodeFailWithExitCode restart on: "137,128".')
    ] = None
    elastic: Annotated[
        AITrainingElasticSpec | None, field_doc("The size asked for by `kubectl scale`; may be written by hand.")
    ] = None
    replica_specs: Annotated[
        dict[str, AITrainingReplicaSchema],
        field_doc("The groups of pods by name: trainer, pserver, worker, …", minProperties=1, maxProperties=MAX_GROUPS),
    ]


_HAS_ELASTIC_REPLICAS_CEL = "(has(self.elastic) && has(self.elastic.replicas))"
_HAS_ELASTIC_GROUP_CEL = "(has(self.elastic) && has(self.elastic.group) && self.elastic.group != '')"
_IS_SUSPENDED_CEL = "(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend)"
"""Whether a job is suspended, or was until this edit."""
_SUSPEND_HINT = "while the job is under way: set spec.suspend first"

AITrainingJobSpecSchema = Annotated[
    AITrainingJobSpec,
    field_doc(
        "What is to be trained, by whom, and what happens when something goes wrong.",
        rules={
            "elastic.group must name one of the groups": f"!{_HAS_ELASTIC_GROUP_CEL}"
            " || self.elastic.group in self.replicaSpecs",
            "elastic.group is required, as several groups could be meant": f"!{_HAS_ELASTIC_REPLICAS_CEL}"
            f" || {_HAS_ELASTIC_GROUP_CEL}"
            " || self.replicaSpecs.size() == 1"
            " || self.replicaSpecs.exists_one(name, has(self.replicaSpecs[name].minReplicas)"
            " || has(self.replicaSpecs[name].maxReplicas))",
            "edlPolicy Never: the size of the elastic group is fixed": f"!{_HAS_ELASTIC_REPLICAS_CEL}"
            " || !self.replicaSpecs.exists(name,"
            " has(self.replicaSpecs[name].edlPolicy) && self.replicaSpecs[name].edlPolicy == 'Never'"
            f" && ({_HAS_ELASTIC_GROUP_CEL} ? self.elastic.group == name : self.replicaSpecs.size() == 1"
            " || has(self.replicaSpecs[name].minReplicas) || has(self.replicaSpecs[name].maxReplicas)))",
            "completePolicy None in every group: nothing could complete the job": "!self.replicaSpecs.all(name,"
            " has(self.replicaSpecs[name].completePolicy) && self.replicaSpecs[name].completePolicy == 'None')",
            f"groups cannot be added or removed {_SUSPEND_HINT}": ValidationRule(
                f"{_IS_SUSPENDED_CEL} || self.replicaSpecs.size() == oldSelf.replicaSpecs.size()"
                " && self.replicaSpecs.all(name, name in oldSelf.replicaSpecs)",
                field_path=".replicaSpecs",
            ),
            f"the template of a group cannot change {_SUSPEND_HINT}": ValidationRule(
                f"{_IS_SUSPENDED_CEL} || self.replicaSpecs.all(name, !(name in oldSelf.replicaSpecs)"
                " || self.replicaSpecs[name].template == oldSelf.replicaSpecs[name].template)",
                field_path=".replicaSpecs",
            ),
            f"a job cannot be handed over {_SUSPEND_HINT}": ValidationRule(
                f"{_IS_SUSPENDED_CEL} || (has(self.managedBy) ? self.managedBy : '')"
                " == (has(oldSelf.managedBy) ? oldSelf.managedBy : '')",
                field_path=".managedBy",
            ),
        },
    ),
]


class AITrainingReplicaStatus(Struct, frozen=True, kw_only=True):
    """How the members of one group are."""

    pending: Annotated[int, field_doc("Not placed on a node yet.")] = 0
    scheduled: Annotated[int, field_doc("Placed, not running yet.")] = 0
    active: Annotated[int, field_doc("Running.")] = 0
    succeeded: Annotated[int, field_doc("Ended well.")] = 0
    restarting: Annotated[int, field_doc("On their way out or back in a restart.")] = 0
    failed: Annotated[int, field_doc("Ended badly.")] = 0


class AITrainingJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is. Lists and maps may be null: the original operator wrote them so."""

    phase: Annotated[
        str | None,
        field_doc("""Pending, Creating, Running, Restarting, Suspended, Terminating, or one of the ends: Succeed,
        Failed, Timeout, Preempted, NodeFail."""),
    ] = None
    reason: Annotated[str, field_doc("One word for the phase, for machines.")] = ""
    message: Annotated[str, field_doc("Why the job is where it is, for people.")] = ""
    ready: Annotated[str, field_doc("Running members of all wanted.")] = ""
    restarts: Annotated[int | None, field_doc("Restarts of all groups together.")] = None
    replicas: Annotated[Count | None, field_doc("Members of the elastic group.")] = None
    selector: Annotated[str, field_doc("Labels of the pods of the elastic group.")] = ""
    conditions: Annotated[
        tuple[PhaseCondition, ...],
        field_doc("Every phase passed, in order of the latest passage; the last is True.", nullable=True),
    ] = ()
    replica_statuses: Annotated[
        dict[str, AITrainingReplicaStatus], field_doc("How the members are, by group.", nullable=True)
    ] = {}
    restart_count: Annotated[dict[str, int], field_doc("Restarts so far, by group.", nullable=True)] = field(
        name="RestartCount", default_factory=dict
    )
    restart_replica_name: Annotated[str, field_doc("The group that called for the latest restart.")] = field(
        name="RestartReplicaName", default=""
    )
    restart_causes: Annotated[dict[str, dict[str, int]], field_doc("What restarts were for, by group.")] = {}
    first_cause: Annotated[
        ReplicaFailureStatus | None,
        field_doc("The earliest failure behind the end or, until then, the latest restart."),
    ] = None
    failures: Annotated[tuple[ReplicaFailureStatus, ...], field_doc("The latest members that ended badly.")] = ()
    progress: Annotated[ProgressStatus | None, field_doc("How far the training has come, as its members report.")] = (
        None
    )
    durations: Annotated[PhaseDurations | None, field_doc("Where the time went, in seconds.")] = None
    scaling: Annotated[
        tuple[GroupScalingStatus, ...], field_doc("Sizes that may change, and why they are what they are.")
    ] = ()
    start_time: Annotated[Timestamp | None, field_doc("When the job was accepted.")] = None
    start_running_time: Annotated[Timestamp | None, field_doc("When all members first ran.")] = None
    end_time: Annotated[Timestamp | None, field_doc("When the job ended.")] = None
    last_reconcile_time: Annotated[Timestamp | None, field_doc("When this status was last written.")] = None
    pliant: Annotated[dict[str, Any], field_doc("What the operator must not forget; not for reading.")] = {}
