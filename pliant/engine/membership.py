"""What must be created and deleted so that every place has the right occupant."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.engine.podspec import pod_manifest, service_manifest
from pliant.engine.restarting import wait_left
from pliant.engine.roster import Place, Roster, Standing
from pliant.model.actions import Action, CreatePod, CreateService, DeletePod, DeleteService
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.observed import Seen
from pliant.model.state import EngineState


def staffing(
    job: Job, seen: Seen, state: EngineState, roster: Roster, framework: Framework, now: datetime
) -> tuple[tuple[Action, ...], timedelta | None]:
    """The creations and deletions due now, and when to look again for those that must wait."""
    vacant, wait = _may_be_filled(job, roster, state, now)
    # Names come first: a member that starts must find its peers' names announced.
    actions: list[Action] = [
        CreateService(name=place.name, manifest=service_manifest(job, place.rank))
        for place in roster.places
        if place.name not in seen.services
    ]
    actions += [CreatePod(name=place.name, manifest=pod_manifest(job, place.rank, framework)) for place in vacant]
    return tuple(actions) + _retirements(seen, roster), wait


def _may_be_filled(
    job: Job, roster: Roster, state: EngineState, now: datetime
) -> tuple[list[Place], timedelta | None]:
    """Empty places that need wait for nobody, and the shortest wait of the others."""
    blocked = _blocked_groups(job, roster, state)
    waits = {group.name: wait_left(state.group(group.name), now) for group in job.groups}
    absent = [
        place
        for place in roster.places
        if place.standing is Standing.ABSENT and place.rank.group.name not in blocked
    ]
    held = [waits[place.rank.group.name] for place in absent if waits[place.rank.group.name]]
    return [place for place in absent if not waits[place.rank.group.name]], min(held, default=None)


def _blocked_groups(job: Job, roster: Roster, state: EngineState) -> set[str]:
    """Groups whose last generation has not left entirely: old and new members must never meet."""
    blocked: set[str] = set()
    for place in roster.places:
        if place.standing is not Standing.STALE or place.pod is None:
            continue
        memory = state.group(place.rank.group.name)
        if place.pod.attempt < memory.job_floor:
            return {group.name for group in job.groups}
        if place.pod.attempt < memory.group_floor:
            blocked.add(place.rank.group.name)
    return blocked


def _retirements(seen: Seen, roster: Roster) -> tuple[Action, ...]:
    """Deletions of pods and services that have no place any more."""
    stale = [
        DeletePod(name=place.pod.name, uid=place.pod.uid, because="a newer attempt takes its place")
        for place in roster.places
        if place.standing is Standing.STALE and place.pod is not None and not place.pod.is_leaving
    ]
    # Highest index first: rank 0 hosts the rendezvous.
    strays = [
        DeletePod(name=pod.name, uid=pod.uid, because="the job no longer has this member")
        for pod in sorted(roster.strays, key=lambda pod: (pod.group, -pod.index, pod.name))
        if not pod.is_leaving
    ]
    named = {place.name for place in roster.places} | {pod.name for pod in roster.strays}
    services = [
        DeleteService(name=service.name, uid=service.uid)
        for service in sorted(seen.services.values(), key=lambda service: service.name)
        if service.name not in named and not service.is_leaving
    ]
    return (*stale, *strays, *services)
