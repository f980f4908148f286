"""Integer types, restart policies and documented fields that the specs and statuses of several kinds share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from pliant.frontends.crd import field_doc
from pliant.frontends.scaling import GroupScalingStatus
from pliant.frontends.status.conditions import JobCondition, PhaseCondition
from pliant.frontends.status.results import PhaseDurations, ProgressStatus, ReplicaFailureStatus
from pliant.model.job import RestartPolicy
from pliant.model.state import Timestamp

MAX_REPLICAS_PER_JOB = 10_000
"""Replicas in one job: a typing error must not occupy the operator at the expense of all other jobs."""

NO_POD_GROUP = "Pliant creates no PodGroup; create one and name it in the annotations of the templates"
"""The advice for fields of schedulers that place the pods of a job together."""

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS_PER_JOB, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]

Suspend = Annotated[bool, field_doc("Whether to suspend the job: the operator deletes its pods and keeps its state.")]
ManagedBy = Annotated[
    str, field_doc("The controller that manages the job. Default: pliant. Pliant ignores jobs with any other value.")
]
TTLSeconds = Annotated[
    Seconds | None, field_doc("Seconds after which a finished job is deleted. Default: the job is kept.")
]
ActiveDeadlineSeconds = Annotated[
    Seconds | None,
    field_doc("Seconds that the job may be active, from its start or last resumption; then the job fails."),
]

PhaseReason = Annotated[str, field_doc("Machine-readable reason for the phase, in CamelCase.")]
Message = Annotated[str, field_doc("Human-readable explanation of the phase.")]
Ready = Annotated[str, field_doc("Running replicas and desired replicas: 3/4.")]
Restarts = Annotated[int | None, field_doc("Number of restarts of all groups.")]
RootCause = Annotated[
    ReplicaFailureStatus | None,
    field_doc("The earliest failure that led to the end of the job or, before the end, to the latest restart."),
]
Progress = Annotated[ProgressStatus | None, field_doc("Training progress as reported by the replicas.")]
Durations = Annotated[PhaseDurations | None, field_doc("Time spent in each phase, in seconds.")]
Scaling = Annotated[tuple[GroupScalingStatus, ...], field_doc("Sizes of the elastic groups.")]
PhaseConditions = Annotated[
    tuple[PhaseCondition, ...],
    field_doc("The phases of the job, ordered by last transition; the current phase is last.", nullable=True),
]
JobConditions = Annotated[
    tuple[JobCondition, ...], field_doc("Conditions of the job; the current condition is last.", nullable=True)
]
StartTime = Annotated[Timestamp | None, field_doc("Time when the operator accepted the job.")]
RunningTime = Annotated[Timestamp | None, field_doc("Time when all replicas were first running.")]
CompletionTime = Annotated[Timestamp | None, field_doc("Time when the outcome of the job was decided.")]
LastReconcileTime = Annotated[Timestamp | None, field_doc("Time of the last update of this status.")]
EngineStateData = Annotated[dict[str, Any], field_doc("Internal state of the operator. Do not edit.")]

PendingCount = Annotated[int, field_doc("Replicas that are not scheduled to a node yet.")]
ActiveCount = Annotated[int, field_doc("Running replicas.")]
SucceededCount = Annotated[int, field_doc("Replicas that succeeded.")]
FailedCount = Annotated[int, field_doc("Replicas that failed.")]
Selector = Annotated[str, field_doc("Label selector of the pods of the scalable group.")]

RETRYABLE_EXIT_CODES = frozenset(range(128, 256))
"""The exit codes that ExitCode restarts on: signals, and codes that programs reserve for retryable errors."""


class ReplicaRestartPolicy(StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


ENGINE_RESTART_POLICIES = {
    ReplicaRestartPolicy.ALWAYS: RestartPolicy.ALWAYS,
    ReplicaRestartPolicy.ON_FAILURE: RestartPolicy.ALWAYS,
    ReplicaRestartPolicy.NEVER: RestartPolicy.NEVER,
    ReplicaRestartPolicy.EXIT_CODE: RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE,
}
