"""What must be created and deleted so that every place has the right occupant."""

from __future__ import annotations

from datetime import timedelta

from pliant.engine.case import Case
from pliant.engine.departure import departures
from pliant.engine.outfit import Outfit, outfit_of
from pliant.engine.podspec import config_map_manifest, pod_manifest, service_manifest
from pliant.engine.restarting import wait_left
from pliant.engine.roster import Place, Roster, Standing
from pliant.model.actions import Action, CreateConfigMap, CreatePod, CreateService, DeleteService
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.labels import member_group, service_of
from pliant.model.state import EngineState


def staffing(case: Case, framework: Framework) -> tuple[tuple[Action, ...], timedelta | None]:
    """The creations and deletions due now, and when to look again for those that must wait."""
    job, places = case.job, case.roster.places
    vacant, wait = _may_be_filled(case)
    # Names come first: a member that starts must find its peers' names announced.
    actions: list[Action] = [
        CreateService(name=place.service, manifest=service_manifest(job, place.rank))
        for place in places
        if place.service not in case.seen.services
    ]
    if vacant:
        actions += _arrivals(outfit_of(job, framework), vacant)
    return (*actions, *_retirements(case)), wait


def _arrivals(outfit: Outfit, places: list[Place]) -> list[Action]:
    """New members, and first what they read: it may be there already, which costs one question and no harm."""
    pods = [CreatePod(name=place.name, manifest=pod_manifest(outfit, place.rank)) for place in places]
    if not outfit.holder:
        return [*pods]
    return [CreateConfigMap(name=outfit.holder, manifest=config_map_manifest(outfit)), *pods]


def _may_be_filled(case: Case) -> tuple[list[Place], timedelta | None]:
    """Empty places that need wait for nobody, and the shortest wait of the others."""
    blocked = _blocked_groups(case.job, case.roster, case.state)
    waits = {group.name: wait_left(case.state.group(group.name), case.now) for group in case.job.groups}
    absent = [
        place
        for place in case.roster.places
        if place.standing is Standing.ABSENT and place.rank.group.name not in blocked
    ]
    held = [waits[place.rank.group.name] for place in absent if waits[place.rank.group.name]]
    return [place for place in absent if not waits[place.rank.group.name]], min(held, default=None)


def _blocked_groups(job: Job, roster: Roster, state: EngineState) -> set[str]:
    """Groups whose last generation has not left entirely: old and new members must never meet."""
    every = {group.name for group in job.groups}
    names = {member_group(name): name for name in every}
    stale = [place.pod for place in roster.places if place.standing is Standing.STALE and place.pod is not None]
    blocked: set[str] = set()
    for pod in (*stale, *roster.strays):
        name = names.get(pod.group)
        # Groups come and go only while a job is suspended, so who has none is from before that.
        if name is None or pod.attempt < state.group(name).job_floor:
            return every
        if pod.attempt < state.group(name).group_floor:
            blocked.add(name)
    return blocked


def _retirements(case: Case) -> tuple[Action, ...]:
    """Deletions of pods and services that have no place any more."""
    seen, roster, now = case.seen, case.roster, case.now
    stale = [place.pod for place in roster.places if place.standing is Standing.STALE and place.pod is not None]
    # Highest index first: rank 0 hosts the rendezvous.
    strays = sorted(roster.strays, key=lambda pod: (pod.group, -pod.index, pod.name))
    named = {place.service for place in roster.places}
    named |= {service_of(case.job.naming, pod.name) for pod in roster.strays}
    services = [
        DeleteService(name=service.name, uid=service.uid)
        for service in sorted(seen.services.values(), key=lambda service: service.name)
        if service.name not in named and not service.is_leaving
    ]
    return (
        *departures(seen, stale, "a newer attempt takes its place", now),
        *departures(seen, strays, "the job no longer has this member", now),
        *services,
    )
