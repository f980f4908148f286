"""Messages as data: a stable reason and its parameters. `pliant.model.english` renders them as text."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

MAX_DETAILS = 3


class Message(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Why a job is in its state, or what changed it. Programs decide by `reason`, never by the rendered text."""

    reason: str
    """A `MessageReason`; a string, since a newer version of Pliant may have written another one."""
    parameters: dict[str, str | int] = {}
    details: tuple[Message, ...] = ()
    """What the message lists: the replicas that failed, the groups that were resized."""


NO_MESSAGE = Message("")
BOUNDS_EDITED, AUTOSCALING_DISABLED = "bounds", "autoscaling-disabled"
"""Who requested a new size, besides those in SizeRequester."""


class MessageReason(StrEnum):
    """All reasons of messages. They are part of the API: a reason may be added, but never renamed."""

    # The start of a job, and jobs that another operator ran.
    JOB_ACCEPTED = "JobAccepted"
    STARTED_BY_OTHER_OPERATOR = "StartedByOtherOperator"
    FINISHED_BY_OTHER_OPERATOR = "FinishedByOtherOperator"
    REPORTED_BY_OTHER_OPERATOR = "ReportedByOtherOperator"

    # The replicas of an active job.
    NO_REPLICAS = "NoReplicas"
    WAITING_FOR_REPLICAS = "WaitingForReplicas"
    ALL_REPLICAS_RUNNING = "AllReplicasRunning"
    SOME_REPLICAS_FINISHED = "SomeReplicasFinished"
    RUNNING_WITH_FAILURES = "RunningWithFailures"
    WAITING_FOR_MASTER = "WaitingForMaster"
    MEMBERS_RUNNING = "MembersRunning"
    MEMBER_COUNT = "MemberCount"
    DEGRADED = "Degraded"
    REPLICA = "Replica"

    # Problems of single objects.
    FAILED_CREATE = "FailedCreate"
    NAME_CONFLICT = "NameConflict"
    REPLICA_NOT_STARTING = "ReplicaNotStarting"
    NODE_FAULTY = "NodeFaulty"
    PODS_NOT_TERMINATING = "PodsNotTerminating"
    BLOCKED_BY_FINALIZER = "BlockedByFinalizer"
    BLOCKED_BY_NODE = "BlockedByNode"
    BLOCKED = "Blocked"
    CONTAINER_NOT_CREATED = "ContainerNotCreated"

    # How a replica ended.
    REPLICA_EXITED = "ReplicaExited"
    REPLICA_KILLED = "ReplicaKilled"
    REPLICA_OUT_OF_MEMORY = "ReplicaOutOfMemory"
    REPLICA_NOT_STARTED = "ReplicaNotStarted"
    REPLICA_FAILED = "ReplicaFailed"
    REPLICA_LOST = "ReplicaLost"
    REPLICA_DELETED = "ReplicaDeleted"
    REPLICA_DISRUPTED = "ReplicaDisrupted"

    # Restarts.
    RESTARTING = "Restarting"
    DISRUPTED_REPLACED = "DisruptedReplaced"
    RESTART_LIMIT_REACHED = "RestartLimitReached"
    JOB_RESTART_LIMIT_REACHED = "JobRestartLimitReached"
    PROGRAM_CANNOT_START = "ProgramCannotStart"
    MASTER_IDLE = "MasterIdle"

    # The end of a job.
    TRAINING_COMPLETED = "TrainingCompleted"
    ALL_REPLICAS_SUCCEEDED = "AllReplicasSucceeded"
    MASTER_DID_NOT_END = "MasterDidNotEnd"
    END_REQUESTED = "EndRequested"
    REPLICAS_FAILED = "ReplicasFailed"
    COMPLETE_POLICY_NOT_MET = "CompletePolicyNotMet"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    START_LIMIT_EXCEEDED = "StartLimitExceeded"
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"
    WAITING_FOR_TERMINATION = "WaitingForTermination"

    # Suspension.
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"

    # Checkpoints before replicas are deleted.
    CHECKPOINT_REQUESTED = "CheckpointRequested"
    CHECKPOINT_SAVED = "CheckpointSaved"
    WAITING_FOR_CHECKPOINT = "WaitingForCheckpoint"

    # Sizes and members.
    GROUPS_RESIZED = "GroupsResized"
    GROUP_RESIZED = "GroupResized"
    RESIZE_REJECTED = "ResizeRejected"
    GROUP_SIZE_FIXED = "GroupSizeFixed"
    PLAN_STARTED = "PlanStarted"
    EXECUTING_PLAN = "ExecutingPlan"
    SERVERS_LISTED = "ServersListed"
    MEMBER_RESOURCES_CHANGED = "MemberResourcesChanged"
    MEMBER_JOINS = "MemberJoins"
    MEMBER_LEAVES = "MemberLeaves"
    MEMBER_MIGRATES = "MemberMigrates"
    MEMBERS_REPLACED = "MembersReplaced"
    MEMBER_REPLACES = "MemberReplaces"
    REPLACEMENT_FAILED = "ReplacementFailed"

    # Warnings.
    SPEC_WARNING = "SpecWarning"
    PLAN_EDIT_IGNORED = "PlanEditIgnored"
    INVALID_SPEC = "InvalidSpec"
    SPEC_REJECTED = "SpecRejected"
    FAILED_GRANT_ACCESS = "FailedGrantAccess"
    MASTER_ACCESS_MISSING = "MasterAccessMissing"
    EVENTS_SUPPRESSED = "EventsSuppressed"
    STATUS_PRUNED = "StatusPruned"
    STATUS_REJECTED = "StatusRejected"


def message(reason: MessageReason, details: Iterable[Message] = (), /, **parameters: str | int | None) -> Message:
    """Return a message that lists at most three details; the parameter `more` counts the others.

    A parameter that is None is left out.
    """
    listed = tuple(details)
    if len(listed) > MAX_DETAILS:
        parameters["more"] = len(listed) - MAX_DETAILS
    given = {name: value for name, value in parameters.items() if value is not None}
    return Message(str(reason), given, listed[:MAX_DETAILS])
