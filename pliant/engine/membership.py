"""What must be created and deleted so that every place has the right occupant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pliant.engine.case import Case
from pliant.engine.control import account_of
from pliant.engine.departure import departures, dismissals
from pliant.engine.members import OUT, OWN_MASTER, rank_of
from pliant.engine.outfit import Outfit, outfit_of
from pliant.engine.podspec import config_map_manifest, pod_manifest, service_manifest
from pliant.engine.restarting import wait_left
from pliant.engine.roster import Place, Roster, Standing
from pliant.model.actions import Action, CreateConfigMap, CreatePod, CreateService, DeleteService, GrantAccess
from pliant.model.framework import Framework, Rank
from pliant.model.job import Job, Steward
from pliant.model.labels import member_group, service_of
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState


def staffing(case: Case, framework: Framework) -> tuple[tuple[Action, ...], timedelta | None]:
    """The creations and deletions due now, and when to look again for those that must wait."""
    job, places = case.job, case.roster.places
    vacant, wait = _may_be_filled(case)
    # Names come first: a member that starts must find its peers' names announced.
    # Two may go by one name for a while: one that takes over, and one that is taken over from.
    nameless = {place.service: place for place in places if place.service not in case.seen.services}
    nameless.pop("", None)
    actions: list[Action] = [
        CreateService(name=name, manifest=service_manifest(job, place.rank)) for name, place in nameless.items()
    ]
    actions += [_access(job, place.rank) for place in vacant if place.rank.group.is_control]
    if vacant:
        actions += _arrivals(outfit_of(job, framework), vacant)
    return (*actions, *_retirements(case)), wait


def _access(job: Job, rank: Rank) -> GrantAccess:
    """What a master is given before it starts: it may be there already, which costs questions and no harm."""
    ours = account_of(job, rank.group)
    account = (rank.group.template.get("spec") or {}).get("serviceAccountName") or ours
    return GrantAccess(account=account, is_ours=account == ours)


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


def _masters_concern(case: Case) -> Iterator[Action]:
    """Pods of those whom a master looks after: lost ones, so that it learns of it, and those sent away."""
    watched = [place for place in case.roster.places if place.rank.group.steward is Steward.MASTER]
    if not watched:
        return
    lost = [place.pod for place in watched if place.standing is Standing.LOST and place.pod is not None]
    yield from departures(case.seen, lost, "its node is lost", case.now)
    sent = {uid for plan in case.state.plans.values() for uid in plan.removals}
    sent |= _surplus(case)
    gone = [place.pod for place in watched if place.pod is not None and place.pod.uid in sent]
    yield from dismissals(case.seen, gone, "the job no longer has this member", case.now)


def _let_go(case: Case, strays: list[ObservedPod]) -> Iterator[Action]:
    """Pods without a place: of those whom a master looks after, one that is not ours would make others."""
    watched = {member_group(group.name) for group in case.job.groups if group.steward is Steward.MASTER}
    for pod in strays:
        go = departures if pod.group not in watched or case.job.options.get(OWN_MASTER) else dismissals
        yield from go(case.seen, [pod], "the job no longer has this member", case.now)


def _surplus(case: Case) -> set[str]:
    """The uids of members that a master has asked for, or made, beyond what a person wants: the highest ranks.

    They are made, and then taken away: a master would wait for whoever was refused to it.
    """
    found: set[str] = set()
    for group in case.job.groups:
        memory = case.state.group(group.name)
        if group.steward is not Steward.MASTER or not memory.is_capped or memory.size is None:
            continue
        alive = [place for place in case.roster.of(group) if place.standing not in OUT]
        kept = set(sorted({rank_of(place) for place in alive})[: memory.size])
        found |= {
            place.pod.uid
            for place in alive
            if place.pod is not None and place.outcome is None and rank_of(place) not in kept
        }
    return found


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
        *_masters_concern(case),
        *departures(seen, stale, "a newer attempt takes its place", now),
        *_let_go(case, strays),
        *services,
    )
