"""The spec and status of an AITrainingJob; the CRD schema is generated from these structs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends import fields
from pliant.frontends.crd import POD_TEMPLATE_MARKER, field_doc
from pliant.frontends.fields import Count, GroupSize, Seconds
from pliant.frontends.spec.metadata import MAX_CHECKPOINT_GRACE_SECONDS
from pliant.frontends.status.results import ReplicaFailureStatus
from pliant.model.job import CleanPodPolicy, EndPolicy, RestartPolicy, RestartScope
from pliant.model.state import Timestamp

MAX_GROUPS = 64
"""Groups in one job. The API server requires a bound to estimate the cost of validation rules."""


class JobEndPolicy(StrEnum):
    ANY = "Any"
    ALL = "All"


class EdlPolicy(StrEnum):
    AUTO = "Auto"
    MANUAL = "Manual"
    NEVER = "Never"


CheckpointGrace = Annotated[int, Meta(ge=0, le=MAX_CHECKPOINT_GRACE_SECONDS, extra_json_schema={"format": "int32"})]


class AITrainingReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of identical replicas."""

    replicas: Annotated[GroupSize | None, field_doc("Number of replicas. Default: minReplicas, else 1.")] = None
    min_replicas: Annotated[GroupSize | None, field_doc("Minimum number of replicas after a resize.")] = None
    max_replicas: Annotated[Count | None, field_doc("Maximum number of replicas after a resize.")] = None
    edl_policy: Annotated[
        EdlPolicy | None,
        field_doc("""Who may change the size between minReplicas and maxReplicas: users and the autoscaler (Auto),
        users only (Manual), or no one (Never: the operator rejects `kubectl scale`)."""),
    ] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        field_doc("""When failed replicas are restarted: on any failure (Always, OnFailure), on node failure
        (OnNodeFail), on an exit code in spec.restartingExitCode (ExitCode), on either of these
        (OnNodeFailWithExitCode), or not at all (Never, the default). If it is set, the pods run with restartPolicy
        Never and a restart creates a new pod."""),
    ] = None
    restart_scope: Annotated[
        RestartScope | None, field_doc("What a restart replaces: Pod, Replica (the group) or All (default).")
    ] = None
    restart_limit: Annotated[Count | None, field_doc("Maximum number of restarts of the group. Default: none.")] = None
    complete_policy: Annotated[
        EndPolicy | None,
        field_doc("""Which replicas must succeed for the group to complete: Any, the first (Rank0), All (the default),
        or None (the job does not wait for this group)."""),
    ] = None
    fail_policy: Annotated[
        EndPolicy | None,
        field_doc("""Which replicas must fail, with no restarts left, for the group to fail: Any (the default), the
        first (Rank0), All, or None (the group never fails)."""),
    ] = None
    template: Annotated[
        dict[str, Any],
        POD_TEMPLATE_MARKER,
        field_doc("""Template of the pods. If containers are named aitj-*, only these determine success and failure,
        and only their ports named aitj-* are published. Otherwise all containers and ports count."""),
    ]


AITrainingReplicaSchema = Annotated[
    AITrainingReplicaSpec,
    field_doc(
        "A group of identical replicas.",
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
    """The size that `kubectl scale` sets, and how replicas leave."""

    group: Annotated[
        str, field_doc("Group to scale. Default: the only group with minReplicas or maxReplicas, or the only group.")
    ] = ""
    replicas: Annotated[
        GroupSize | None,
        field_doc("""Desired size, limited to the bounds of the group. The later edit of this field and of the
        replicas of the group takes precedence."""),
    ] = None
    checkpoint_grace: Annotated[
        CheckpointGrace | None,
        field_doc("""Seconds that a replica may take to save its state before the operator deletes it: by a resize, a
        suspension, a preemption or a drain of its node. Default: 30. Only replicas that acknowledge checkpoint requests
        are waited for."""),
    ] = None
    membership_file: Annotated[
        bool, field_doc("Whether replicas find their current peers in files in /etc/pliant/membership.")
    ] = False
    disruption_budget: Annotated[
        bool,
        field_doc("""Whether a PodDisruptionBudget holds `kubectl drain` until the replicas of the node have saved their
        state, at most for checkpointGrace."""),
    ] = False


class AITrainingJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    framework_type: Annotated[str, field_doc("Training framework: tensorflow, paddlepaddle, pytorch, mxnet, …")] = ""
    fault_tolerant: Annotated[
        bool,
        field_doc("""Whether an elastic group keeps running after it has lost replicas for good, as long as its first
        replica and minReplicas are left."""),
    ] = False
    priority: Annotated[
        str, field_doc("Value of the label `priority` of the pods, and their PriorityClass if it exists.")
    ] = ""
    scheduler_name: Annotated[str, field_doc("Scheduler of the pods.")] = ""
    time_limit: Annotated[
        Seconds | None,
        field_doc("""Seconds that the job may run, from when all pods were first running and without suspensions. Then
        the job ends as Timeout. The field may be changed while the job runs."""),
    ] = None
    start_limit: Annotated[
        Seconds | None,
        field_doc(
            "Seconds from the start or the last resumption until all pods must run; else the job ends as Timeout."
        ),
    ] = None
    ttl_seconds_after_finished: fields.TTLSeconds = None
    suspend: Annotated[
        bool,
        field_doc("""Whether to suspend the job: the operator deletes its pods, and timeLimit is paused. While a job
        is suspended, its templates may be edited, and groups may be added or removed."""),
    ] = False
    managed_by: fields.ManagedBy = ""
    clean_pod_policy: Annotated[
        CleanPodPolicy | None,
        field_doc("Which pods and services are deleted when the job ends: All (the default), Running or None."),
    ] = None
    fail_policy: Annotated[
        JobEndPolicy | None, field_doc("Whether the job fails with Any failed group (the default), or only with All.")
    ] = None
    complete_policy: Annotated[
        JobEndPolicy | None, field_doc("Whether the job completes with Any completed group, or with All (the default).")
    ] = None
    restarting_exit_code: Annotated[
        Any, field_doc('Exit codes that the policies ExitCode and OnNodeFailWithExitCode restart on: "137,128".')
    ] = None
    elastic: Annotated[
        AITrainingElasticSpec | None, field_doc("The size that `kubectl scale` sets, and how replicas leave.")
    ] = None
    replica_specs: Annotated[
        dict[str, AITrainingReplicaSchema],
        field_doc("The groups by name: trainer, pserver, worker, …", minProperties=1, maxProperties=MAX_GROUPS),
    ]


_HAS_ELASTIC_REPLICAS_CEL = "(has(self.elastic) && has(self.elastic.replicas))"
_HAS_ELASTIC_GROUP_CEL = "(has(self.elastic) && has(self.elastic.group) && self.elastic.group != '')"

AITrainingJobSpecSchema = Annotated[
    AITrainingJobSpec,
    field_doc(
        "Specification of the desired behavior of the job.",
        rules={
            "elastic.group must name one of the groups": f"!{_HAS_ELASTIC_GROUP_CEL}"
            " || self.elastic.group in self.replicaSpecs",
            "elastic.group is required because several groups can be scaled": f"!{_HAS_ELASTIC_REPLICAS_CEL}"
            f" || {_HAS_ELASTIC_GROUP_CEL}"
            " || self.replicaSpecs.size() == 1"
            " || self.replicaSpecs.exists_one(name, has(self.replicaSpecs[name].minReplicas)"
            " || has(self.replicaSpecs[name].maxReplicas))",
            "edlPolicy Never: the size of the elastic group is fixed": f"!{_HAS_ELASTIC_REPLICAS_CEL}"
            " || !self.replicaSpecs.exists(name,"
            " has(self.replicaSpecs[name].edlPolicy) && self.replicaSpecs[name].edlPolicy == 'Never'"
            f" && ({_HAS_ELASTIC_GROUP_CEL} ? self.elastic.group == name : self.replicaSpecs.size() == 1"
            " || has(self.replicaSpecs[name].minReplicas) || has(self.replicaSpecs[name].maxReplicas)))",
            "at least one group must have a completePolicy other than None": "!self.replicaSpecs.all(name,"
            " has(self.replicaSpecs[name].completePolicy) && self.replicaSpecs[name].completePolicy == 'None')",
        },
    ),
]


class AITrainingReplicaStatus(Struct, frozen=True, kw_only=True):
    """Number of replicas of a group by state."""

    pending: fields.PendingCount = 0
    scheduled: Annotated[int, field_doc("Replicas that are scheduled and not running yet.")] = 0
    active: fields.ActiveCount = 0
    succeeded: fields.SucceededCount = 0
    restarting: Annotated[int, field_doc("Replicas that are being restarted.")] = 0
    failed: fields.FailedCount = 0


class AITrainingJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the job. Lists and maps may be null, as the original operator wrote them."""

    phase: Annotated[
        str | None,
        field_doc("""Pending, Creating, Running, Restarting, Suspended, Terminating, or a final phase: Succeed, Failed,
        Timeout, Preempted, NodeFail. Invalid if the operator rejects the spec of a new job."""),
    ] = None
    reason: fields.PhaseReason = ""
    message: fields.Message = ""
    ready: fields.Ready = ""
    restarts: fields.Restarts = None
    replicas: Annotated[Count | None, field_doc("Number of replicas of the scalable group.")] = None
    selector: fields.Selector = ""
    conditions: fields.PhaseConditions = ()
    replica_statuses: Annotated[
        dict[str, AITrainingReplicaStatus], field_doc("Number of replicas by group and state.", nullable=True)
    ] = {}
    restart_count: Annotated[dict[str, int], field_doc("Number of restarts by group.", nullable=True)] = field(
        name="RestartCount", default_factory=dict
    )
    restart_replica_name: Annotated[str, field_doc("Group that caused the latest restart.")] = field(
        name="RestartReplicaName", default=""
    )
    restart_causes: Annotated[dict[str, dict[str, int]], field_doc("Number of restarts by group and cause.")] = {}
    root_cause: fields.RootCause = None
    failures: Annotated[tuple[ReplicaFailureStatus, ...], field_doc("The latest failures of replicas.")] = ()
    progress: fields.Progress = None
    durations: fields.Durations = None
    scaling: fields.Scaling = ()
    start_time: fields.StartTime = None
    start_running_time: fields.RunningTime = None
    end_time: Annotated[Timestamp | None, field_doc("Time when the job ended.")] = None
    last_reconcile_time: fields.LastReconcileTime = None
    pliant: fields.EngineStateData = {}
