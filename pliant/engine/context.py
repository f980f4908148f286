"""The input of a decision about one job, its transitions, and the timeline that records them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from msgspec.structs import replace

from pliant.engine.plans.membership import job_in_effect, match_pods_to_replicas
from pliant.engine.pods.replicas import Replicas
from pliant.model.job import Job
from pliant.model.messages import Message
from pliant.model.observed import Observed
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState, JobPhase, PhaseStart, TimelineEntry

MAX_TIMELINE_ENTRIES = 24
"""Older entries are dropped, so that the status stays small however often a job restarts."""


@dataclass(frozen=True, kw_only=True)
class Context:
    spec: Job
    """The job as its current spec defines it."""
    before: EngineState | None
    """The stored state; None for a new job."""
    state: EngineState
    """The state that this decision builds."""
    observed: Observed
    config: OperatorConfig
    now: datetime

    @cached_property
    def job(self) -> Job:
        """The job with the sizes and members in effect."""
        return job_in_effect(self.spec, self.state, self.before)

    @cached_property
    def replicas(self) -> Replicas:
        return match_pods_to_replicas(self.job, self.observed, self.state, self.config, self.now)

    @property
    def is_suspended(self) -> bool:
        """Whether the job has been suspended; `job.is_suspended` is whether it should be."""
        return self.state.phase is JobPhase.SUSPENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A state change that is persisted before it is acted upon; the event is emitted after the write."""

    state: EngineState
    reason: str
    message: Message
    is_warning: bool = True


def make_transition(
    state: EngineState, at: datetime, reason: str, message: Message, *, is_warning: bool = True
) -> Transition:
    """Return the transition to `state`, with a timeline entry."""
    state = with_timeline_entry(state, at, reason, message)
    return Transition(state=state, reason=reason, message=message, is_warning=is_warning)


def with_timeline_entry(state: EngineState, at: datetime, reason: str, message: Message) -> EngineState:
    entry = TimelineEntry(at=at, reason=reason, message=message)
    return replace(state, timeline=(*state.timeline, entry)[-MAX_TIMELINE_ENTRIES:])


def add_elapsed_phase_time(state: EngineState, at: datetime) -> EngineState:
    """If the phase has changed, add the time spent in the previous phase and start counting for the new one."""
    previous = state.phase_start
    if previous is not None and previous.phase is state.phase:
        return state
    after = replace(state, phase_start=PhaseStart(phase=state.phase, since=at))
    if previous is None:
        return after
    # The start may lie in the future if the clock was set back.
    seconds = max((at - previous.since).total_seconds(), 0.0) + state.phase_seconds.get(previous.phase, 0.0)
    return replace(after, phase_seconds={**state.phase_seconds, previous.phase: seconds})
