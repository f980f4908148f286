"""Parts of a status about results: failures, time spent in each phase, and training progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from pliant.frontends.crd import field_doc
from pliant.model.state import EngineState, JobPhase, ReplicaCounts, ReplicaFailure, Timestamp


class ReplicaFailureStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The failure of one replica."""

    replica: Annotated[str, field_doc("Name of the replica: worker-1.")]
    attempt: Annotated[int, field_doc("Attempt that failed, counted from 0.")] = 0
    cause: Annotated[str, field_doc("Cause of the failure: app, node or creation.")] = ""
    container: Annotated[str, field_doc("Container that failed first.")] = ""
    exit_code: Annotated[int | None, field_doc("Exit code of the container.")] = None
    signal: Annotated[str, field_doc("Name of the signal that terminated the container.")] = ""
    reason: Annotated[str, field_doc("Reason that Kubernetes reports, or the problem of the node.")] = ""
    node: Annotated[str, field_doc("Node that the pod ran on.")] = ""
    time: Annotated[Timestamp | None, field_doc("Time of the failure.")] = None
    message: Annotated[str, field_doc("Termination message, or the last lines of the log.")] = ""


class PhaseDurations(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Time spent in each phase, in whole seconds. A phase is added when it ends."""

    queued: Annotated[int, field_doc("Seconds until all pods were scheduled (Pending).")] = 0
    starting: Annotated[int, field_doc("Seconds until all pods were running (Creating).")] = 0
    running: Annotated[int, field_doc("Seconds in phase Running.")] = 0
    restarting: Annotated[int, field_doc("Seconds in phase Restarting.")] = 0
    suspended: Annotated[int, field_doc("Seconds in phase Suspended.")] = 0
    terminating: Annotated[int, field_doc("Seconds in phase Terminating.")] = 0
    total: Annotated[int, field_doc("Seconds in all phases.")] = 0


class ProgressPoint(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One report of the history."""

    time: Annotated[Timestamp, field_doc("Time of the report.")]
    step: Annotated[int | None, field_doc("Step at this time.")] = None
    metrics: Annotated[dict[str, str], field_doc("Up to three other values at this time.")] = {}


class ProgressHistory(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Selected reports since the start of the job."""

    interval_seconds: Annotated[int, field_doc("Minimum time in seconds between two points.")] = 1
    points: Annotated[tuple[ProgressPoint, ...], field_doc("Up to 64 reports, the oldest first.")] = ()


class ProgressStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Training progress as reported by the replicas."""

    step: Annotated[int | None, field_doc("Latest step.")] = None
    total: Annotated[int | None, field_doc("Total number of steps.")] = None
    metrics: Annotated[dict[str, str], field_doc("Other reported values, such as loss and epoch.")] = {}
    reported_by: Annotated[str, field_doc("Replica that sent the latest report.")] = ""
    time: Annotated[Timestamp | None, field_doc("Time of the latest report.")] = None
    history: Annotated[ProgressHistory | None, field_doc("Selected reports, for charts.")] = None


_PHASE_BY_DURATION_FIELD = {
    "queued": JobPhase.PENDING,
    "starting": JobPhase.CREATING,
    "running": JobPhase.RUNNING,
    "restarting": JobPhase.RESTARTING,
    "suspended": JobPhase.SUSPENDED,
    "terminating": JobPhase.TERMINATING,
}


def phase_durations(state: EngineState) -> PhaseDurations | None:
    """Return the time spent in each phase, or None during the first phase."""
    if not state.phase_seconds:
        return None
    seconds = {name: int(state.phase_seconds.get(phase, 0.0)) for name, phase in _PHASE_BY_DURATION_FIELD.items()}
    return PhaseDurations(**seconds, total=int(sum(state.phase_seconds.values())))


def decided_phase(state: EngineState) -> JobPhase:
    """Return the outcome as soon as it is decided, without waiting for the deletion of pods; else the phase."""
    return state.outcome.phase if state.outcome else state.phase


def decided_at(state: EngineState) -> datetime | None:
    """Return when the outcome was decided, or None if it is still open."""
    return state.outcome.at if state.outcome else state.ended_at


def format_ready_replicas(counts: Mapping[str, ReplicaCounts]) -> str:
    """Return running and desired replicas of all groups as `3/4`."""
    return f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}"


def count_existing_replicas(counts: Mapping[str, ReplicaCounts], group: str) -> int | None:
    """Return how many replicas of a group have a pod that has not finished; None if there is no such group."""
    found = counts.get(group)
    return found.pending + found.scheduled + found.active if found else None


def root_cause_status(state: EngineState) -> ReplicaFailureStatus | None:
    """Return the root cause of the job's end or latest restart."""
    return failure_status(state.root_cause) if state.root_cause else None


def failure_status(failure: ReplicaFailure) -> ReplicaFailureStatus:
    """Return a failure in the form of a status."""
    return ReplicaFailureStatus(
        replica=failure.replica,
        attempt=failure.attempt,
        cause=str(failure.cause),
        container=failure.container,
        exit_code=failure.exit_code,
        signal=failure.signal,
        reason=failure.reason,
        node=failure.node,
        time=failure.at.replace(microsecond=0),
        message=failure.message,
    )


def restart_counts_by_cause(state: EngineState) -> dict[str, dict[str, int]]:
    """Return the number of restarts by group and cause."""
    return {
        name: {str(cause): number for cause, number in group_state.restarts_by_cause.items()}
        for name, group_state in state.groups.items()
        if group_state.restarts_by_cause
    }


def read_progress(status: Mapping[str, Any]) -> ProgressStatus | None:
    """Return the training progress of a raw status, or None if it has none."""
    try:
        return msgspec.convert(status.get("progress"), ProgressStatus | None)
    except msgspec.ValidationError:
        return None
