"""Suspending and resuming: the members go, the clock stops, and everything learned is kept."""

from __future__ import annotations

from dataclasses import replace as altered
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned
from pliant.engine.departure import departures
from pliant.engine.members import OWN_MASTER
from pliant.engine.rollup import summary
from pliant.engine.roster import Roster, Standing
from pliant.model.actions import Action, DeleteService
from pliant.model.job import Group, Job, Steward
from pliant.model.labels import member_group, service_name
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
    if case.job.has_master and _has_members(case):
        return None  # a new master would take those who leave for members that it has lost
    # Counts from before the suspension would say that everybody runs.
    present = summary(case)
    groups = {group.name: _anew(case.job, group, present.group(group.name)) for group in case.job.groups}
    state = replace(present, phase=Phase.PENDING, message="resumed", groups=groups, waiting_from=case.now)
    return turned(state, case.now, "Resumed", "resumed", is_warning=False)


def _anew(job: Job, group: Group, memory: GroupState) -> GroupState:
    """What is kept of a group that begins again."""
    # What could not be created before has had time to be mended.
    memory = replace(memory, template=group.fingerprint, stuck_from=None)
    if group.steward is Steward.MASTER and not job.options.get(OWN_MASTER):
        # A new master that is not ours counts its members from 0, and waits for those ids.
        return replace(memory, members={}, next_id=0)
    return memory


def evacuation(job: Job, seen: Seen, now: datetime) -> tuple[Action, ...]:
    """Everything a suspended job still holds must go; its master stays, if it has one."""
    control = [group for group in job.groups if group.is_control]
    staying = {member_group(group.name) for group in control}
    named = {service_name(job, group.name, index) for group in control for index in range(group.size)}
    services = sorted(
        (service for service in seen.services.values() if service.name not in named),
        key=lambda service: service.name,
    )
    leaving = sorted((pod for pod in seen.pods if pod.group not in staying), key=lambda pod: pod.name)
    return (
        *departures(seen, leaving, "the job is suspended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_leaving),
    )


def master_kept(case: Case) -> Case:
    """A suspended job with nobody to care for but its master, which begins anew.

    The old one would miss its members; the new one waits until they have left, or it would take them for its own.
    """
    is_early = _has_members(case)
    places = tuple(
        place
        for place in case.roster.places
        if place.rank.group.is_control and not (is_early and place.standing is Standing.ABSENT)
    )
    return altered(case, roster=Roster(places=places, strays=()))


def _has_members(case: Case) -> bool:
    """Whether anybody is there besides the master."""
    control = {member_group(group.name) for group in case.job.groups if group.is_control}
    return any(pod.group not in control for pod in case.seen.pods)


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
        if group.steward is Steward.MASTER:
            continue  # those whom a master looks after come and go by its word alone
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
