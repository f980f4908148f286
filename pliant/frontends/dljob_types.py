"""What every kind made from DLJob has in its spec and status: the source of their schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends.conditions import Condition
from pliant.frontends.crd import TEMPLATE, Column, told
from pliant.frontends.results import Durations, MemberFailure, Progress
from pliant.model.job import CleanPolicy, RestartScope
from pliant.model.state import Time

MOST_MEMBERS = 10_000
MOST_TYPES = 16

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]
Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS, extra_json_schema={"format": "int32"})]


class Restarts(StrEnum):
    """When a replica that ended badly is made anew."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class ReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one type."""

    replica_type: Annotated[str, told("The part they play; upper or lower case.", maxLength=63)]
    replicas: Annotated[Size | None, told("How many there are. Default: 1.")] = None
    restart_policy: Annotated[
        Restarts | None,
        told("""When one that ended badly comes back, as a new pod: always (Always, OnFailure), never (Never), or
        when its exit code is 128 or above, as with signals and lost nodes (ExitCode). Default: what the template
        says, else ExitCode."""),
    ] = None
    restart_scope: Annotated[
        RestartScope | None,
        told("Who comes back with it: the Pod alone, its type (Replica), or All (the default)."),
    ] = None
    restart_limit: Annotated[Count | None, told("How often that may happen. Default: 3.")] = None
    template: Annotated[dict[str, Any], TEMPLATE, told("Their pods.")]


Spec = Annotated[
    list[ReplicaSpec],
    told(
        "The replicas, type by type.",
        minItems=1,
        maxItems=MOST_TYPES,
        rules={
            "every replicaType may be there once": "self.all(one, self.exists_one(other,"
            " other.replicaType.lowerAscii() == one.replicaType.lowerAscii()))"
        },
    ),
]


class RunPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the job is run; beside the spec, as that is a list."""

    suspend: Annotated[bool, told("Whether the job rests: its pods are deleted, its place is kept.")] = False
    active_deadline_seconds: Annotated[
        Seconds | None, told("How long the job may take from its start, or from when it was resumed.")
    ] = None
    ttl_seconds_after_finished: Annotated[Seconds | None, told("How long the job is kept after its end.")] = None
    clean_pod_policy: Annotated[
        CleanPolicy | None, told("Which pods go when the job ends: All, Running (the default), or None.")
    ] = None
    backoff_limit: Annotated[Count | None, told("Restarts of all types together. Default: no limit.")] = None
    managed_by: Annotated[str, told("Who looks after the job; others than us are left to do so.")] = ""


class Exit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a replica came to an end."""

    exit_code: Annotated[int | None, told("What its program returned.")] = None
    signal: Annotated[str, told("The signal that ended it, if one did.")] = ""
    reason: Annotated[str, told("The cluster's word for it: Completed, Error, OOMKilled.")] = ""
    message: Annotated[str, told("What it said last.")] = ""
    time: Annotated[Time | None, told("When it ended.")] = None


class ReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one replica is."""

    name: Annotated[str, told("Its pod.")]
    replica_type: Annotated[str, told("The part it plays.")] = ""
    index: Annotated[int, told("Its number among those of its type.")] = 0
    phase: Annotated[
        str, told("Pending, Scheduled, Running, Succeeded, Failed, or Stopped: sent home before its own end.")
    ] = ""
    node: Annotated[str, told("Where it runs.")] = ""
    restarts: Annotated[int, told("How often it was made anew.")] = 0
    attempt: Annotated[int, told("The attempt of its type that it belongs to.")] = 0
    start_time: Annotated[Time | None, told("When its present run began.")] = None
    completion_time: Annotated[Time | None, told("When that ended.")] = None
    duration: Annotated[str, told("How long that took.")] = ""
    last_exit: Annotated[Exit | None, told("Its latest end, be it of an earlier run.")] = None


class TypeStatus(Struct, frozen=True, kw_only=True):
    """How the replicas of one type are."""

    active: Annotated[int, told("Running.")] = 0
    pending: Annotated[int, told("On their way.")] = 0
    succeeded: Annotated[int, told("Ended well.")] = 0
    failed: Annotated[int, told("Ended badly.")] = 0


class DLJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    phase: Annotated[
        str,
        told("""Pending, Creating, Running, Restarting, Suspended, or one of the ends: Succeeded, Failed, Timeout,
        Preempted, NodeFail."""),
    ] = ""
    reason: Annotated[str, told("One word for the phase, for machines.")] = ""
    message: Annotated[str, told("Why the job is where it is, for people.")] = ""
    ready: Annotated[str, told("Running replicas of all wanted.")] = ""
    restarts: Annotated[int | None, told("Restarts so far.")] = None
    start_time: Annotated[Time | None, told("When the job was accepted.")] = None
    running_time: Annotated[Time | None, told("When all replicas first ran.")] = None
    completion_time: Annotated[Time | None, told("When its end was decided.")] = None
    duration: Annotated[str, told("From its start to its end.")] = ""
    durations: Annotated[Durations | None, told("Where the time went, in seconds.")] = None
    progress: Annotated[Progress | None, told("How far the training has come, as its members report.")] = None
    first_cause: Annotated[
        MemberFailure | None, told("The earliest failure behind the end or, until then, the latest restart.")
    ] = None
    replica_types: Annotated[dict[str, TypeStatus], told("How many are how, by type.", nullable=True)] = {}
    replica_statuses: Annotated[
        list[ReplicaStatus],
        told("How each replica is; of very many, those that have something to tell.", nullable=True),
    ] = []
    conditions: Annotated[
        tuple[Condition, ...],
        told("Every phase passed, in order of the latest passage; the last is True.", nullable=True),
    ] = ()
    last_reconcile_time: Annotated[Time | None, told("When this status was last written.")] = None
    pliant: Annotated[dict[str, Any], told("What the operator must not forget; not for reading.")] = {}


COLUMNS = (
    Column(name="Phase", type="string", path=".status.phase"),
    Column(name="Ready", type="string", path=".status.ready", description="Running replicas of all wanted."),
    Column(name="Restarts", type="integer", path=".status.restarts"),
    Column(name="Duration", type="string", path=".status.duration"),
    Column(name="Age", type="date", path=".metadata.creationTimestamp"),
    Column(name="Reason", type="string", path=".status.message", priority=1),
)
