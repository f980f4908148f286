"""What a status tells of results: who failed and how, where the time went, how far the training has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from pliant.frontends.crd import told
from pliant.model.state import EngineState, Failure, Phase, Time


class MemberFailure(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one member ended badly."""

    member: Annotated[str, told("Which member: worker-1.")]
    attempt: Annotated[int, told("Which attempt of it, counted from 0.")] = 0
    cause: Annotated[str, told("What it is put down to: app, node or creation.")] = ""
    container: Annotated[str, told("The container that ended badly first.")] = ""
    exit_code: Annotated[int | None, told("The exit code.")] = None
    signal: Annotated[str, told("The signal that ended it, by name.")] = ""
    reason: Annotated[str, told("The cluster's word for it, or what was wrong with the node.")] = ""
    node: Annotated[str, told("Where it was.")] = ""
    at: Annotated[Time | None, told("When.")] = None
    message: Annotated[str, told("What it said last: its termination message, or the last lines of its log.")] = ""


class Durations(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where the time went, in whole seconds; a phase counts when it is left."""

    queued: Annotated[int, told("Until its members were placed (Pending).")] = 0
    starting: Annotated[int, told("Until all of them ran (Creating).")] = 0
    running: Annotated[int, told("While they ran (Running).")] = 0
    restarting: Annotated[int, told("While members were restarted (Restarting).")] = 0
    suspended: Annotated[int, told("While the job rested (Suspended).")] = 0
    ending: Annotated[int, told("While members were cleared away (Terminating).")] = 0
    total: Annotated[int, told("All of these.")] = 0


class Progress(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far the training has come, as its members report."""

    step: Annotated[int | None, told("The latest step.")] = None
    total: Annotated[int | None, told("The number of steps there will be.")] = None
    metrics: Annotated[dict[str, str], told("Everything else that was reported: loss, epoch, …")] = {}
    by: Annotated[str, told("Who reported last.")] = ""
    at: Annotated[Time | None, told("When.")] = None


_STAGES = {
    "queued": Phase.PENDING,
    "starting": Phase.CREATING,
    "running": Phase.RUNNING,
    "restarting": Phase.RESTARTING,
    "suspended": Phase.SUSPENDED,
    "ending": Phase.TERMINATING,
}


def durations_in(state: EngineState) -> Durations | None:
    """Where the time went; None as long as the first phase lasts."""
    if not state.spent:
        return None
    spent = {name: int(state.spent.get(phase, 0.0)) for name, phase in _STAGES.items()}
    return Durations(**spent, total=int(sum(state.spent.values())))


def failure_words(failure: Failure) -> MemberFailure:
    """A failure in the words of a status."""
    return MemberFailure(
        member=failure.member,
        attempt=failure.attempt,
        cause=str(failure.cause),
        container=failure.container,
        exit_code=failure.code,
        signal=failure.signal,
        reason=failure.reason,
        node=failure.node,
        at=failure.at.replace(microsecond=0),
        message=failure.message,
    )


def restart_causes(state: EngineState) -> dict[str, dict[str, int]]:
    """What restarts were for, by group."""
    return {
        name: {str(cause): number for cause, number in memory.restarts.items()}
        for name, memory in state.groups.items()
        if memory.restarts
    }


def progress_in(status: Mapping[str, Any]) -> Progress | None:
    """What was reported, as a status holds it; None if nothing was."""
    try:
        return msgspec.convert(status.get("progress"), Progress | None)
    except msgspec.ValidationError:
        return None
