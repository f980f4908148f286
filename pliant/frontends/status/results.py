"""What a status tells of results: who failed and how, where the time went, how far the training has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from pliant.frontends.crd import field_doc
from pliant.model.state import EngineState, JobPhase, ReplicaFailure, Timestamp


class ReplicaFailureStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one member ended badly."""

    member: Annotated[str, field_doc("Which member: worker-1.")]
    attempt: Annotated[int, field_doc("Which attempt of it, counted from 0.")] = 0
    cause: Annotated[str, field_doc("What it is put down to: app, node or creation.")] = ""
    container: Annotated[str, field_doc("The container that ended badly first.")] = ""
    exit_code: Annotated[int | None, field_doc("The exit code.")] = None
    signal: Annotated[str, field_doc("The signal that ended it, by name.")] = ""
    reason: Annotated[str, field_doc("The cluster's word for it, or what was wrong with the node.")] = ""
    node: Annotated[str, field_doc("Where it was.")] = ""
    at: Annotated[Timestamp | None, field_doc("When.")] = None
    message: Annotated[str, field_doc("What it said last: its termination message, or the last lines of its log.")] = ""


class PhaseDurations(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where the time went, in whole seconds; a phase counts when it is left."""

    queued: Annotated[int, field_doc("Until its members were placed (Pending).")] = 0
    starting: Annotated[int, field_doc("Until all of them ran (Creating).")] = 0
    running: Annotated[int, field_doc("While they ran (Running).")] = 0
    restarting: Annotated[int, field_doc("While members were restarted (Restarting).")] = 0
    suspended: Annotated[int, field_doc("While the job rested (Suspended).")] = 0
    ending: Annotated[int, field_doc("While members were cleared away (Terminating).")] = 0
    total: Annotated[int, field_doc("All of these.")] = 0


class ProgressStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far the training has come, as its members report."""

    step: Annotated[int | None, field_doc("The latest step.")] = None
    total: Annotated[int | None, field_doc("The number of steps there will be.")] = None
    metrics: Annotated[dict[str, str], field_doc("Everything else that was reported: loss, epoch, …")] = {}
    by: Annotated[str, field_doc("Who reported last.")] = ""
    at: Annotated[Timestamp | None, field_doc("When.")] = None


_PHASE_BY_DURATION_FIELD = {
    "queued": JobPhase.PENDING,
    "starting": JobPhase.CREATING,
    "running": JobPhase.RUNNING,
    "restarting": JobPhase.RESTARTING,
    "suspended": JobPhase.SUSPENDED,
    "ending": JobPhase.TERMINATING,
}


def phase_durations(state: EngineState) -> PhaseDurations | None:
    """Where the time went; None as long as the first phase lasts."""
    if not state.phase_seconds:
        return None
    spent = {name: int(state.phase_seconds.get(phase, 0.0)) for name, phase in _PHASE_BY_DURATION_FIELD.items()}
    return PhaseDurations(**spent, total=int(sum(state.phase_seconds.values())))


def failure_status(failure: ReplicaFailure) -> ReplicaFailureStatus:
    """A failure in the words of a status."""
    return ReplicaFailureStatus(
        member=failure.replica,
        attempt=failure.attempt,
        cause=str(failure.cause),
        container=failure.container,
        exit_code=failure.exit_code,
        signal=failure.signal,
        reason=failure.reason,
        node=failure.node,
        at=failure.at.replace(microsecond=0),
        message=failure.message,
    )


def restarts_by_cause(state: EngineState) -> dict[str, dict[str, int]]:
    """What restarts were for, by group."""
    return {
        name: {str(cause): number for cause, number in memory.restarts_by_cause.items()}
        for name, memory in state.groups.items()
        if memory.restarts_by_cause
    }


def read_progress(status: Mapping[str, Any]) -> ProgressStatus | None:
    """What was reported, as a status holds it; None if nothing was."""
    try:
        return msgspec.convert(status.get("progress"), ProgressStatus | None)
    except msgspec.ValidationError:
        return None
