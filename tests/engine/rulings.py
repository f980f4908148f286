"""Asking the engine about one job at one moment, and reading its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from pliant.engine.decide import decide
from pliant.model.actions import Decision, EmitEvent
from pliant.model.job import Job
from pliant.model.observed import Observed
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase
from tests.builders import NOON, PlainFramework

RUNNING = EngineState(
    phase=JobPhase.RUNNING,
    message="all replicas are running",
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


def decided(job: Job, seen: Observed | None = None, now: datetime = NOON) -> Decision:
    return decide(job, seen or Observed(), PlainFramework(), now)


def names(decision: Decision, kind: type) -> list[str]:
    return [action.name for action in decision.actions if isinstance(action, kind)]  # type: ignore[union-attr]


def intent_of(decision: Decision) -> EngineState:
    assert decision.transition_status is not None, decision
    return decision.transition_status.state


def verdict_of(decision: Decision) -> JobOutcome:
    verdict = intent_of(decision).outcome
    assert verdict is not None
    return verdict


def status_of(decision: Decision) -> EngineState:
    (status,) = decision.status_updates.values()
    return status.state


def event_of(decision: Decision) -> EmitEvent:
    (event,) = decision.actions
    assert isinstance(event, EmitEvent)
    return event
