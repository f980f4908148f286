"""The input of a decision about one job, and the transitions that it may lead to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pliant.engine.pods.replicas import Replicas
from pliant.engine.timeline import with_timeline_entry
from pliant.model.job import Job
from pliant.model.observed import Observed
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One job at one moment."""

    job: Job
    """The job with its groups at the sizes in effect."""
    requested_job: Job
    """The job as its current spec defines it."""
    observed: Observed
    state: EngineState
    replicas: Replicas
    now: datetime

    @property
    def config(self) -> OperatorConfig:
        return self.observed.config


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A state change that is persisted before it is acted upon; the event is emitted after the write."""

    state: EngineState
    reason: str
    message: str
    is_warning: bool = True


def make_transition(
    state: EngineState, at: datetime, reason: str, message: str, *, is_warning: bool = True
) -> Transition:
    """Return the transition to `state`, with a timeline entry."""
    state = with_timeline_entry(state, at, reason, message)
    return Transition(state=state, reason=reason, message=message, is_warning=is_warning)
