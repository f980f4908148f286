"""Asking the engine about one job at one moment, and reading its answer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from pliant.model.actions import Act, Action, Decision, EmitEvent, PersistTransition
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import Observed
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase
from tests.builders import NOON, PlainFramework, StoredJob, decide_stored

RUNNING = EngineState(
    phase=JobPhase.RUNNING,
    message=message(MessageReason.ALL_REPLICAS_RUNNING),
    started_at=NOON,
    first_running_at=NOON,
    active_since=NOON,
)


def remembering(phase: JobPhase = JobPhase.RUNNING, **changes: Any) -> EngineState:
    """What is remembered of a job in some phase."""
    return replace(RUNNING, phase=phase, **changes)


def of_workers(phase: JobPhase = JobPhase.RUNNING, **changes: Any) -> EngineState:
    """What is remembered of a job of which the workers matter."""
    return remembering(phase, groups={"worker": GroupState(**changes)})


def decided(job: StoredJob, seen: Observed | None = None, now: datetime = NOON) -> Decision:
    return decide_stored(job, seen or Observed(), PlainFramework(), now)


def actions_of(decision: Decision) -> tuple[Action, ...]:
    """What is done: a transition only emits its event."""
    return decision.actions if isinstance(decision, Act) else decision.events


def is_transition(decision: Decision) -> bool:
    return isinstance(decision, PersistTransition)


def wait_of(decision: Decision) -> timedelta | None:
    """When to look again; what a transition writes calls for the next look."""
    return decision.requeue_after if isinstance(decision, Act) else None


def names(decision: Decision, kind: type) -> list[str]:
    return [action.name for action in actions_of(decision) if isinstance(action, kind)]  # type: ignore[union-attr]


def intent_of(decision: Decision) -> EngineState:
    assert isinstance(decision, PersistTransition), decision
    return decision.status.state


def verdict_of(decision: Decision) -> JobOutcome:
    verdict = intent_of(decision).outcome
    assert verdict is not None
    return verdict


def update_of(decision: Decision) -> EngineState | None:
    """What is written after the actions, if anything; a transition is written before."""
    return decision.status.state if isinstance(decision, Act) and decision.status is not None else None


def status_of(decision: Decision) -> EngineState:
    state = update_of(decision)
    assert state is not None, decision
    return state


def stored_by(decision: Decision) -> EngineState | None:
    """What is written of the job, before or after anything else, if anything."""
    return intent_of(decision) if is_transition(decision) else update_of(decision)


def event_of(decision: Decision) -> EmitEvent:
    """The event of a transition; that of a checkpoint request may follow it."""
    event = actions_of(decision)[0]
    assert isinstance(event, EmitEvent)
    return event


def exited(replica: str, code: int = 1) -> Message:
    """The message about a replica that ended with this code."""
    return message(MessageReason.REPLICA_EXITED, replica=replica, code=code)


def not_starting(replica: str, problem: str) -> Message:
    """The message of a job one replica of which does not start."""
    cause = message(MessageReason.REPLICA_NOT_STARTING, replica=replica, problem=problem)
    return message(MessageReason.DEGRADED, [cause])
