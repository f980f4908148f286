"""Suspending and resuming: the members go, the clock stops, and everything learned is kept."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned
from pliant.engine.departure import departures
from pliant.engine.rollup import summary
from pliant.model.actions import Action, DeleteService
from pliant.model.job import Job
from pliant.model.observed import Seen
from pliant.model.state import EngineState, GroupState, Outcome, Phase


def suspended(case: Case) -> Turn | None:
    """Send everybody home, if that is asked for."""
    if not case.job.is_suspended or case.state.phase is Phase.SUSPENDED:
        return None
    state = replace(
        case.state,
        phase=Phase.SUSPENDED,
        message="suspended",
        groups=_left_behind(case) if case.seen.pods else case.state.groups,
        clock_from=None,
        clock_spent=seconds_run(case.state, case.now),
    )
    return turned(
        state, case.now, str(Phase.SUSPENDED), "suspended: its pods go, its clock stands", is_warning=False
    )


def resumed(case: Case) -> Turn | None:
    """Begin again, if that is asked for; templates may have changed meanwhile."""
    if case.job.is_suspended or case.state.phase is not Phase.SUSPENDED:
        return None
    # Counts from before the suspension would say that everybody runs.
    present = summary(case)
    groups = {
        # What could not be created before has had time to be mended.
        group.name: replace(present.group(group.name), template=group.fingerprint, stuck_from=None)
        for group in case.job.groups
    }
    state = replace(present, phase=Phase.PENDING, message="resumed", groups=groups, waiting_from=case.now)
    return turned(state, case.now, "Resumed", "resumed", is_warning=False)


def evacuation(job: Job, seen: Seen, now: datetime) -> tuple[Action, ...]:
    """Everything a suspended job still holds must go."""
    services = sorted(seen.services.values(), key=lambda service: service.name)
    return (
        *departures(seen, sorted(seen.pods, key=lambda pod: pod.name), "the job is suspended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_leaving),
    )


def seconds_run(state: EngineState, now: datetime) -> float:
    """How long the job has run so far, suspensions left out."""
    since = (now - state.clock_from).total_seconds() if state.clock_from is not None else 0.0
    return state.clock_spent + max(since, 0.0)


def _left_behind(case: Case) -> dict[str, GroupState]:
    """One generation on: whoever comes after the suspension never meets those from before it.

    Who has done their work stays done, though their pods go.
    """
    groups = {**case.state.groups}
    for group in case.job.groups:
        memory = case.state.group(group.name)
        attempt = memory.attempt + 1
        done = {
            place.rank.index: Outcome.SUCCEEDED
            for place in case.roster.of(group)
            if place.outcome is Outcome.SUCCEEDED
        }
        groups[group.name] = replace(
            memory, attempt=attempt, job_floor=attempt, index_floors={}, finished=memory.finished | done
        )
    return groups
