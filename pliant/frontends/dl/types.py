"""What every kind made from DLJob has in its spec and status: the source of their schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends.crd import POD_TEMPLATE, PrinterColumn, field_doc
from pliant.frontends.status.conditions import PhaseCondition
from pliant.frontends.status.results import PhaseDurations, ProgressStatus, ReplicaFailureStatus
from pliant.model.job import CleanPodPolicy, RestartScope
from pliant.model.state import Timestamp

MAX_REPLICAS = 10_000
MAX_REPLICA_TYPES = 16

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS, extra_json_schema={"format": "int32"})]


class DLRestartPolicy(StrEnum):
    """When a replica that ended badly is made anew."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class DLReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one type."""

    replica_type: Annotated[str, field_doc("The part they play; upper or lower case.", maxLength=63)]
    replicas: Annotated[GroupSize | None, field_doc("How many there are. Default: 1.")] = None
    restart_policy: Annotated[
        DLRestartPolicy | None,
        field_doc("""When one that ended badly comes back, as a new pod: always (Always, OnFailure), never (Never), or
        when its exit code is 128 or above, as with signals and lost nodes (ExitCode). Default: what the template
        says, else ExitCode."""),
    ] = None
    restart_scope: Annotated[
        RestartScope | None,
        field_doc("Who comes back with it: the Pod alone, its type (Replica), or All (the default)."),
    ] = None
    restart_limit: Annotated[Count | None, field_doc("How often that may happen. Default: 3.")] = None
    template: Annotated[dict[str, Any], POD_TEMPLATE, field_doc("Their pods.")]


DLJobSpecSchema = Annotated[
    list[DLReplicaSpec],
    field_doc(
        "The replicas, type by type.",
        minItems=1,
        maxItems=MAX_REPLICA_TYPES,
        rules={
            "every replicaType may be there once": "self.all(one, self.exists_one(other,"
            " other.replicaType.lowerAscii() == one.replicaType.lowerAscii()))"
        },
    ),
]


class DLRunPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the job is run; beside the spec, as that is a list."""

    suspend: Annotated[bool, field_doc("Whether the job rests: its pods are deleted, its place is kept.")] = False
    active_deadline_seconds: Annotated[
        Seconds | None, field_doc("How long the job may take from its start, or from when it was resumed.")
    ] = None
    ttl_seconds_after_finished: Annotated[Seconds | None, field_doc("How long the job is kept after its end.")] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy | None, field_doc("Which pods go when the job ends: All, Running (the default), or None.")
    ] = None
    backoff_limit: Annotated[Count | None, field_doc("Restarts of all types together. Default: no limit.")] = None
    managed_by: Annotated[str, field_doc("Who looks after the job; others than us are left to do so.")] = ""


class DLReplicaExit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a replica came to an end."""

    exit_code: Annotated[int | None, field_doc("What its program returned.")] = None
    signal: Annotated[str, field_doc("The signal that ended it, if one did.")] = ""
    reason: Annotated[str, field_doc("The cluster's word for it: Completed, Error, OOMKilled.")] = ""
    message: Annotated[str, field_doc("What it said last.")] = ""
    time: Annotated[Timestamp | None, field_doc("When it ended.")] = None


class DLReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one replica is."""

    name: Annotated[str, field_doc("Its pod.")]
    replica_type: Annotated[str, field_doc("The part it plays.")] = ""
    index: Annotated[int, field_doc("Its number among those of its type.")] = 0
    phase: Annotated[
        str, field_doc("Pending, Scheduled, Running, Succeeded, Failed, or Stopped: sent home before its own end.")
    ] = ""
    node: Annotated[str, field_doc("Where it runs.")] = ""
    restarts: Annotated[int, field_doc("How often it was made anew.")] = 0
    attempt: Annotated[int, field_doc("The attempt of its type that it belongs to.")] = 0
    start_time: Annotated[Timestamp | None, field_doc("When its present run began.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("When that ended.")] = None
    duration: Annotated[str, field_doc("How long that took.")] = ""
    last_exit: Annotated[DLReplicaExit | None, field_doc("Its latest end, be it of an earlier run.")] = None


class DLReplicaTypeStatus(Struct, frozen=True, kw_only=True):
    """How the replicas of one type are."""

    active: Annotated[int, field_doc("Running.")] = 0
    pending: Annotated[int, field_doc("On their way.")] = 0
    succeeded: Annotated[int, field_doc("Ended well.")] = 0
    failed: Annotated[int, field_doc("Ended badly.")] = 0


class DLJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    phase: Annotated[
        str,
        field_doc("""Pending, Creating, Running, Restarting, Suspended, or one of the ends: Succeeded, Failed, Timeout,
        Preempted, NodeFail."""),
    ] = ""
    reason: Annotated[str, field_doc("One word for the phase, for machines.")] = ""
    message: Annotated[str, field_doc("Why the job is where it is, for people.")] = ""
    ready: Annotated[str, field_doc("Running replicas of all wanted.")] = ""
    restarts: Annotated[int | None, field_doc("Restarts so far.")] = None
    start_time: Annotated[Timestamp | None, field_doc("When the job was accepted.")] = None
    running_time: Annotated[Timestamp | None, field_doc("When all replicas first ran.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("When its end was decided.")] = None
    duration: Annotated[str, field_doc("From its start to its end.")] = ""
    durations: Annotated[PhaseDurations | None, field_doc("Where the time went, in seconds.")] = None
    progress: Annotated[ProgressStatus | None, field_doc("How far the training has come, as its members report.")] = (
        None
    )
    first_cause: Annotated[
        ReplicaFailureStatus | None,
        field_doc("The earliest failure behind the end or, until then, the latest restart."),
    ] = None
    replica_types: Annotated[
        dict[str, DLReplicaTypeStatus], field_doc("How many are how, by type.", nullable=True)
    ] = {}
    replica_statuses: Annotated[
        list[DLReplicaStatus],
        field_doc("How each replica is; of very many, those that have something to tell.", nullable=True),
    ] = []
    conditions: Annotated[
        tuple[PhaseCondition, ...],
        field_doc("Every phase passed, in order of the latest passage; the last is True.", nullable=True),
    ] = ()
    last_reconcile_time: Annotated[Timestamp | None, field_doc("When this status was last written.")] = None
    pliant: Annotated[dict[str, Any], field_doc("What the operator must not forget; not for reading.")] = {}


PRINTER_COLUMNS = (
    PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
    PrinterColumn(
        name="Ready", type="string", json_path=".status.ready", description="Running replicas of all wanted."
    ),
    PrinterColumn(name="Restarts", type="integer", json_path=".status.restarts"),
    PrinterColumn(name="Duration", type="string", json_path=".status.duration"),
    PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    PrinterColumn(name="Reason", type="string", json_path=".status.message", priority=1),
)
