"""A job on the table: everything a decision about it may look at, and the changes of course it may lead to."""

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
    """With its groups at the sizes that are acted upon."""
    requested_job: Job
    """As its author has it by now."""
    observed: Observed
    state: EngineState
    replicas: Replicas
    now: datetime

    @property
    def config(self) -> OperatorConfig:
        """What holds for all jobs."""
        return self.observed.config


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of course: remembered before it is acted upon, and told once it is remembered."""

    state: EngineState
    reason: str
    message: str
    is_warning: bool = True


def make_transition(
    state: EngineState, at: datetime, reason: str, message: str, *, is_warning: bool = True
) -> Transition:
    """A change of course as it enters the job's story."""
    return Transition(
        state=with_timeline_entry(state, at, reason, message), reason=reason, message=message, is_warning=is_warning
    )
