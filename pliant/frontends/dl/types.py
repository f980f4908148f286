"""The spec and status of the kinds that derive from DLJob; their CRD schemas are generated from these structs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from pliant.frontends import fields
from pliant.frontends.crd import POD_TEMPLATE_MARKER, PrinterColumn, field_doc
from pliant.frontends.fields import Count, GroupSize, ReplicaRestartPolicy
from pliant.model.job import CleanPodPolicy, RestartScope
from pliant.model.state import Timestamp


class DLReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one type."""

    replica_type: Annotated[str, field_doc("Type of the replicas, in upper or lower case.", maxLength=63)]
    replicas: Annotated[GroupSize | None, field_doc("Number of replicas. Default: 1.")] = None
    restart_policy: Annotated[
        ReplicaRestartPolicy | None,
        field_doc("""When failed replicas are restarted as new pods: on any failure (Always, OnFailure), not at all
        (Never), or on exit codes of 128 and above and on node failure (ExitCode). Default: the restartPolicy of the
        template, else ExitCode."""),
    ] = None
    restart_scope: Annotated[
        RestartScope | None, field_doc("What a restart replaces: Pod, Replica (its type) or All (default).")
    ] = None
    restart_limit: Annotated[Count | None, field_doc("Maximum number of restarts. Default: 3.")] = None
    template: Annotated[dict[str, Any], POD_TEMPLATE_MARKER, field_doc("Template of the pods.")]


DLJobSpecSchema = Annotated[
    list[DLReplicaSpec],
    field_doc(
        "The replicas of the job by type.",
        minItems=1,
        rules={
            "replicaType must be unique": "self.all(one, self.exists_one(other,"
            " other.replicaType.lowerAscii() == one.replicaType.lowerAscii()))"
        },
    ),
]


class DLRunPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Run policy of the job. It is outside the spec because the spec is a list."""

    suspend: fields.Suspend = False
    active_deadline_seconds: fields.ActiveDeadlineSeconds = None
    ttl_seconds_after_finished: fields.TTLSeconds = None
    clean_pod_policy: Annotated[
        CleanPodPolicy | None, field_doc("Pods to delete at the end: All, Running (default) or None.")
    ] = None
    backoff_limit: Annotated[Count | None, field_doc("Maximum number of restarts of the job. Default: none.")] = None
    managed_by: fields.ManagedBy = ""


class DLReplicaExit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Termination of a replica."""

    exit_code: Annotated[int | None, field_doc("Exit code of the program.")] = None
    signal: Annotated[str, field_doc("Signal that terminated the program, if any.")] = ""
    reason: Annotated[str, field_doc("Reason that Kubernetes reports: Completed, Error, OOMKilled.")] = ""
    message: Annotated[str, field_doc("Termination message, or the last lines of the log.")] = ""
    time: Annotated[Timestamp | None, field_doc("Time of the termination.")] = None


class DLReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Status of one replica."""

    name: Annotated[str, field_doc("Name of the pod.")]
    replica_type: Annotated[str, field_doc("Type of the replica.")] = ""
    index: Annotated[int, field_doc("Index of the replica among the replicas of its type.")] = 0
    phase: Annotated[
        str, field_doc("Pending, Scheduled, Running, Succeeded, Failed, or Stopped if the operator deleted the pod.")
    ] = ""
    node: Annotated[str, field_doc("Node of the pod.")] = ""
    restarts: Annotated[int, field_doc("Number of restarts.")] = 0
    attempt: Annotated[int, field_doc("Attempt of the replica type that the pod belongs to.")] = 0
    start_time: Annotated[Timestamp | None, field_doc("Start time of the current run.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("End time of the current run.")] = None
    duration: Annotated[str, field_doc("Duration of the current run.")] = ""
    last_exit: Annotated[DLReplicaExit | None, field_doc("Latest termination, possibly of an earlier run.")] = None


class DLReplicaTypeStatus(Struct, frozen=True, kw_only=True):
    """Number of replicas of a type by state."""

    active: fields.ActiveCount = 0
    pending: Annotated[int, field_doc("Replicas that are not running yet.")] = 0
    succeeded: fields.SucceededCount = 0
    failed: fields.FailedCount = 0


class DLJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the job."""

    phase: Annotated[
        str,
        field_doc("""Pending, Creating, Running, Restarting, Suspended, or a final phase: Succeeded, Failed, Timeout,
        Preempted, NodeFail. Invalid if the operator rejects the spec of a new job."""),
    ] = ""
    reason: fields.PhaseReason = ""
    message: fields.Message = ""
    ready: fields.Ready = ""
    restarts: fields.Restarts = None
    start_time: fields.StartTime = None
    running_time: fields.RunningTime = None
    completion_time: fields.CompletionTime = None
    duration: Annotated[str, field_doc("Duration of the job.")] = ""
    durations: fields.Durations = None
    progress: fields.Progress = None
    root_cause: fields.RootCause = None
    replica_types: Annotated[
        dict[str, DLReplicaTypeStatus], field_doc("Number of replicas by type and state.", nullable=True)
    ] = {}
    replica_statuses: Annotated[
        list[DLReplicaStatus],
        field_doc("Status of each replica; of more than 200, those with failures or restarts first.", nullable=True),
    ] = []
    conditions: fields.PhaseConditions = ()
    last_reconcile_time: fields.LastReconcileTime = None
    pliant: fields.EngineStateData = {}


PRINTER_COLUMNS = (
    PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
    PrinterColumn(name="Ready", type="string", json_path=".status.ready", description="Running/desired replicas."),
    PrinterColumn(name="Restarts", type="integer", json_path=".status.restarts"),
    PrinterColumn(name="Duration", type="string", json_path=".status.duration"),
    PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    PrinterColumn(name="Reason", type="string", json_path=".status.message", priority=1),
)
