"""AITrainingJob as users write and read it: the source of its schema and of `kubectl explain`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends.conditions import Condition
from pliant.frontends.crd import TEMPLATE, Rule, told
from pliant.frontends.results import Durations, MemberFailure, Progress
from pliant.frontends.scaling import GroupScaling
from pliant.model.job import CleanPolicy, EndPolicy, RestartPolicy, RestartScope
from pliant.model.state import Time

MOST_GROUPS = 64
"""Groups in one job; a bound lets the API server reckon what its rules cost."""

MOST_MEMBERS = 10_000
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
Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]


class ReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """One group of like pods."""

    replicas: Annotated[Size | None, told("How many pods the group has. Default: minReplicas, else 1.")] = None
    min_replicas: Annotated[Size | None, told("The smallest size a resize may bring the group to.")] = None
    max_replicas: Annotated[Count | None, told("The largest size a resize may bring the group to.")] = None
    edl_policy: Annotated[
        EdlPolicy | None,
        told("""Who may change the size between the bounds: the autoscaler as well (Auto), only people (Manual),
        nobody (Never, which makes `kubectl scale` an error)."""),
    ] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        told("""What leads to a restart: any failure (Always, OnFailure), the loss of a node (OnNodeFail), an exit
        code listed in spec.restartingExitCode (ExitCode), either of these two (OnNodeFailWithExitCode), or nothing
        (Never, the default). Where it is set the pods run with restartPolicy Never: a restart is a new pod."""),
    ] = None
    restart_scope: Annotated[
        RestartScope | None,
        told("What a restart replaces: the pod, its group (Replica) or the whole job (All, the default)."),
    ] = None
    restart_limit: Annotated[Count | None, told("How often the group may be restarted. Default: no limit.")] = None
    complete_policy: Annotated[
        EndPolicy | None,
        told("""Whose success completes the group: any pod's, the first pod's (Rank0), all pods' (All, the
        default), or nobody's (None: the job does not wait for this group)."""),
    ] = None
    fail_policy: Annotated[
        EndPolicy | None,
        told("""Whose failure, once no restart is left, fails the group: any pod's (Any, the default), the first
        pod's (Rank0), all pods' (All), or nobody's (None)."""),
    ] = None
    template: Annotated[
        dict[str, Any],
        TEMPLATE,
        told("""The pods of the group. Containers named aitj-* decide success and failure, and their ports named
        aitj-* are published; without such names all of them count."""),
    ]


Replica = Annotated[
    ReplicaSpec,
    told(
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


class Elastic(Struct, frozen=True, kw_only=True, rename="camel"):
    """The size asked for by `kubectl scale`."""

    group: Annotated[
        str, told("The group meant. Default: the only one with bounds, else the only one there is.")
    ] = ""
    replicas: Annotated[
        Size | None,
        told(
            "Its wanted size, kept within its bounds. Of this and the replicas of the group the later edit wins."
        ),
    ] = None


class AITrainingJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, by whom, and what happens when something goes wrong."""

    framework_type: Annotated[str, told("The training framework: tensorflow, paddlepaddle, pytorch, mxnet, …")] = (
        ""
    )
    fault_tolerant: Annotated[
        bool,
        told("""Whether a group with bounds may lose members for good and go on, as long as it keeps its first one
        and minReplicas."""),
    ] = False
    priority: Annotated[str, told("A PriorityClass; also the label `priority` of the pods.")] = ""
    scheduler_name: Annotated[str, told("The scheduler that places the pods.")] = ""
    time_limit: Annotated[
        Seconds | None,
        told("""Seconds the job may run, counted from when all pods first ran, suspensions left out; then it ends
        as Timeout. May be edited while it runs."""),
    ] = None
    start_limit: Annotated[
        Seconds | None,
        told("Seconds until all pods must run, counted from the start or the last resumption; else Timeout."),
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, told("Seconds after its end at which the job itself is deleted. Default: never.")
    ] = None
    suspend: Annotated[
        bool,
        told("""Whether the job is to hold nothing for now: its pods are deleted, its clock stands. Only then may
        templates be edited, and groups added or removed."""),
    ] = False
    managed_by: Annotated[
        str, told("Who looks after the job, if not Pliant (`pliant`, the default): then Pliant leaves it alone.")
    ] = ""
    clean_pod_policy: Annotated[
        CleanPolicy | None,
        told("""Which pods and services are deleted when the job ends: all (the default), those still Running, or
        none (None)."""),
    ] = None
    fail_policy: Annotated[
        JobEndPolicy | None,
        told("Whether any failed group fails the job (Any, the default) or only all of them (All)."),
    ] = None
    complete_policy: Annotated[
        JobEndPolicy | None,
        told("Whether any completed group completes the job (Any) or only all of them (All, the default)."),
    ] = None
    restarting_exit_code: Annotated[
        Any, told('Exit codes that policies ExitCode and OnNodeFailWithExitCode restart on: "137,128".')
    ] = None
    elastic: Annotated[Elastic | None, told("The size asked for by `kubectl scale`; may be written by hand.")] = (
        None
    )
    replica_specs: Annotated[
        dict[str, Replica],
        told(
            "The groups of pods by name: trainer, pserver, worker, …", minProperties=1, maxProperties=MOST_GROUPS
        ),
    ]


_ASKS_SIZE = "(has(self.elastic) && has(self.elastic.replicas))"
_NAMES_GROUP = "(has(self.elastic) && has(self.elastic.group) && self.elastic.group != '')"
_AT_REST = "(has(self.suspend) && self.suspend) || (has(oldSelf.suspend) && oldSelf.suspend)"
"""Whether a job is suspended, or was until this edit."""
_ADVICE = "while the job is under way: set spec.suspend first"

Spec = Annotated[
    AITrainingJobSpec,
    told(
        "What is to be trained, by whom, and what happens when something goes wrong.",
        rules={
            "elastic.group must name one of the groups": f"!{_NAMES_GROUP}"
            " || self.elastic.group in self.replicaSpecs",
            "elastic.group is required, as several groups could be meant": f"!{_ASKS_SIZE} || {_NAMES_GROUP}"
            " || self.replicaSpecs.size() == 1"
            " || self.replicaSpecs.exists_one(name, has(self.replicaSpecs[name].minReplicas)"
            " || has(self.replicaSpecs[name].maxReplicas))",
            "edlPolicy Never: the size of the elastic group is fixed": f"!{_ASKS_SIZE}"
            " || !self.replicaSpecs.exists(name,"
            " has(self.replicaSpecs[name].edlPolicy) && self.replicaSpecs[name].edlPolicy == 'Never'"
            f" && ({_NAMES_GROUP} ? self.elastic.group == name : self.replicaSpecs.size() == 1"
            " || has(self.replicaSpecs[name].minReplicas) || has(self.replicaSpecs[name].maxReplicas)))",
            "completePolicy None in every group: nothing could complete the job": "!self.replicaSpecs.all(name,"
            " has(self.replicaSpecs[name].completePolicy) && self.replicaSpecs[name].completePolicy == 'None')",
            f"groups cannot be added or removed {_ADVICE}": Rule(
                f"{_AT_REST} || self.replicaSpecs.size() == oldSelf.replicaSpecs.size()"
                " && self.replicaSpecs.all(name, name in oldSelf.replicaSpecs)",
                field=".replicaSpecs",
            ),
            f"the template of a group cannot change {_ADVICE}": Rule(
                f"{_AT_REST} || self.replicaSpecs.all(name, !(name in oldSelf.replicaSpecs)"
                " || self.replicaSpecs[name].template == oldSelf.replicaSpecs[name].template)",
                field=".replicaSpecs",
            ),
            f"a job cannot be handed over {_ADVICE}": Rule(
                f"{_AT_REST} || (has(self.managedBy) ? self.managedBy : '')"
                " == (has(oldSelf.managedBy) ? oldSelf.managedBy : '')",
                field=".managedBy",
            ),
        },
    ),
]


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """How the members of one group are."""

    pending: Annotated[int, told("Not placed on a node yet.")] = 0
    scheduled: Annotated[int, told("Placed, not running yet.")] = 0
    active: Annotated[int, told("Running.")] = 0
    succeeded: Annotated[int, told("Ended well.")] = 0
    restarting: Annotated[int, told("On their way out or back in a restart.")] = 0
    failed: Annotated[int, told("Ended badly.")] = 0


class AITrainingJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is. Lists and maps may be null: the original operator wrote them so."""

    phase: Annotated[
        str | None,
        told("""Pending, Creating, Running, Restarting, Suspended, Terminating, or one of the ends: Succeed,
        Failed, Timeout, Preempted, NodeFail."""),
    ] = None
    reason: Annotated[str, told("One word for the phase, for machines.")] = ""
    message: Annotated[str, told("Why the job is where it is, for people.")] = ""
    ready: Annotated[str, told("Running members of all wanted.")] = ""
    restarts: Annotated[int | None, told("Restarts of all groups together.")] = None
    replicas: Annotated[Count | None, told("Members of the elastic group.")] = None
    selector: Annotated[str, told("Labels of the pods of the elastic group.")] = ""
    conditions: Annotated[
        tuple[Condition, ...],
        told("Every phase passed, in order of the latest passage; the last is True.", nullable=True),
    ] = ()
    replica_statuses: Annotated[
        dict[str, ReplicaStatus], told("How the members are, by group.", nullable=True)
    ] = {}
    restart_count: Annotated[dict[str, int], told("Restarts so far, by group.", nullable=True)] = field(
        name="RestartCount", default_factory=dict
    )
    restart_replica_name: Annotated[str, told("The group that called for the latest restart.")] = field(
        name="RestartReplicaName", default=""
    )
    restart_causes: Annotated[dict[str, dict[str, int]], told("What restarts were for, by group.")] = {}
    first_cause: Annotated[
        MemberFailure | None, told("The earliest failure behind the end or, until then, the latest restart.")
    ] = None
    failures: Annotated[tuple[MemberFailure, ...], told("The latest members that ended badly.")] = ()
    progress: Annotated[Progress | None, told("How far the training has come, as its members report.")] = None
    durations: Annotated[Durations | None, told("Where the time went, in seconds.")] = None
    scaling: Annotated[
        tuple[GroupScaling, ...], told("Sizes that may change, and why they are what they are.")
    ] = ()
    start_time: Annotated[Time | None, told("When the job was accepted.")] = None
    start_running_time: Annotated[Time | None, told("When all members first ran.")] = None
    end_time: Annotated[Time | None, told("When the job ended.")] = None
    last_reconcile_time: Annotated[Time | None, told("When this status was last written.")] = None
    pliant: Annotated[dict[str, Any], told("What the operator must not forget; not for reading.")] = {}
