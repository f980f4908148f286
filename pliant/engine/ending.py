"""When a job is over: end policies of groups and of the job, and what happens then."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.restarting import total
from pliant.engine.roster import Place, Roster
from pliant.engine.timeline import noted
from pliant.engine.wording import counted, failure_of, listing
from pliant.model.actions import Action, DeletePod, DeleteService
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job
from pliant.model.observed import Seen
from pliant.model.state import EngineState, Outcome, Phase, Verdict


def completion(job: Job, roster: Roster, now: datetime) -> Verdict | None:
    """The verdict that the job has done its work, if it has."""
    if not _reached(job.complete_policy, _on_completion(job, roster), Outcome.SUCCEEDED):
        return None
    return Verdict(phase=Phase.SUCCEED, message="training completed", at=now)


def failure(job: Job, roster: Roster, state: EngineState, now: datetime) -> Verdict | None:
    """The verdict that the job has failed or can no longer complete, if so."""
    causes = [_cause(place, state) for place in _by_time(roster.failed())]
    if _reached(job.fail_policy, _on_failure(job, roster), Outcome.FAILED):
        return Verdict(phase=Phase.FAILED, message=listing(causes), at=now)
    if not _nobody_is_left(job, roster):
        return None
    if not causes:
        return Verdict(phase=Phase.SUCCEED, message="every member ended well", at=now)
    message = f"no end policy was met and nothing is left to run: {listing(causes)}"
    return Verdict(phase=Phase.FAILED, message=message, at=now)


def sentenced(job: Job, state: EngineState, verdict: Verdict) -> EngineState:
    """The memory of a job whose end has been decided."""
    told = noted(state, verdict.at, str(verdict.phase), verdict.message)
    if job.clean is CleanPolicy.NONE:
        return replace(told, verdict=verdict, phase=verdict.phase, message=verdict.message, ended_at=verdict.at)
    return replace(told, verdict=verdict, phase=Phase.TERMINATING, message=verdict.message)


def clearing(job: Job, seen: Seen) -> tuple[Action, ...]:
    """Delete all that a finished job still holds; what is leaving already is left alone."""
    if job.clean is CleanPolicy.NONE:
        return ()
    pods = tuple(
        DeletePod(name=pod.name, uid=pod.uid, because="the job has ended")
        for pod in sorted(seen.pods, key=lambda pod: pod.name)
        if not pod.is_leaving
    )
    services = tuple(
        DeleteService(name=service.name, uid=service.uid)
        for service in sorted(seen.services.values(), key=lambda service: service.name)
        if not service.is_leaving
    )
    return pods + services


Voter = tuple[EndPolicy, tuple[Place, ...]]
"""A group with a say: its policy and its members."""


def _voters(policies: Iterable[tuple[EndPolicy, Group]], roster: Roster) -> list[Voter]:
    rows = [(policy, roster.of(group)) for policy, group in policies]
    return [(policy, places) for policy, places in rows if places and policy is not EndPolicy.NONE]


def _on_completion(job: Job, roster: Roster) -> list[Voter]:
    return _voters([(group.complete_policy, group) for group in job.groups], roster)


def _on_failure(job: Job, roster: Roster) -> list[Voter]:
    return _voters([(group.fail_policy, group) for group in job.groups], roster)


def _speaks(policy: EndPolicy, places: tuple[Place, ...], outcome: Outcome) -> bool:
    matches = [place.outcome is outcome for place in places]
    match policy:
        case EndPolicy.ANY:
            return any(matches)
        case EndPolicy.RANK0:
            return matches[0]
        case EndPolicy.ALL:
            return all(matches)
        case EndPolicy.NONE:
            return False


def _reached(policy: EndPolicy, voters: list[Voter], outcome: Outcome) -> bool:
    votes = [_speaks(own, places, outcome) for own, places in voters]
    return bool(votes) and (any(votes) if policy is EndPolicy.ANY else all(votes))


def _cause(place: Place, state: EngineState) -> str:
    """What happened, and why it was not mended."""
    group = place.rank.group
    if group.restart.limit is not None and total(state.group(group.name)) >= group.restart.limit > 0:
        return f"{failure_of(place)} and {group.name} has spent its {counted(group.restart.limit, 'restart')}"
    return failure_of(place)


def _nobody_is_left(job: Job, roster: Roster) -> bool:
    """Whether every member that could still complete the job has ended."""
    voting = [place for _, places in _on_completion(job, roster) for place in places]
    places = voting or roster.places
    return bool(places) and all(place.outcome is not None for place in places)


def _by_time(places: Iterable[Place]) -> list[Place]:
    """Earliest end first, so that the first cause is named first."""

    def ended(place: Place) -> tuple[bool, str]:
        at = place.pod.finished_at if place.pod else None
        return (at is None, at.isoformat() if at else "")

    return sorted(places, key=ended)
