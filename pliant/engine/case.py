"""A job on the table: everything a decision about it may look at, and the changes of course it may lead to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pliant.engine.roster import Roster
from pliant.engine.timeline import noted
from pliant.model.job import Job
from pliant.model.observed import Seen
from pliant.model.rules import Rules
from pliant.model.state import EngineState


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job at one moment."""

    job: Job
    """With its groups at the sizes that are acted upon."""
    asked: Job
    """As its author has it by now."""
    seen: Seen
    state: EngineState
    roster: Roster
    now: datetime

    @property
    def rules(self) -> Rules:
        """What holds for all jobs."""
        return self.seen.rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A change of course: remembered before it is acted upon, and told once it is remembered."""

    state: EngineState
    reason: str
    message: str
    is_warning: bool = True


def turned(state: EngineState, at: datetime, reason: str, message: str, *, is_warning: bool = True) -> Turn:
    """A change of course as it enters the job's story."""
    return Turn(state=noted(state, at, reason, message), reason=reason, message=message, is_warning=is_warning)
