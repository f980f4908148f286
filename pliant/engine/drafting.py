"""What a plan makes of the lists of members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from pliant.engine.case import Case
from pliant.engine.members import OUT, Change, apart_from_master, resized_list, sent_away, with_newcomer
from pliant.engine.roster import Place
from pliant.engine.sizing import wanted_size
from pliant.engine.wording import counted
from pliant.model.job import Group, Steward
from pliant.model.labels import member_name
from pliant.model.plans import GroupRequest, Plan, PodRequest
from pliant.model.state import GroupState, Member, Request, Requester


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The lists as a plan wants them; nothing is changed where there are no changes."""

    groups: Mapping[str, GroupState] = field(default_factory=dict)
    pods: tuple[str, ...] = ()
    """The names of pods to be made."""
    removals: tuple[str, ...] = ()
    """The uids of pods that a master made and that have to go."""
    changes: list[str] = field(default_factory=list)
    """In words."""
    problem: str = ""
    """Why it cannot be done."""


def drafted(case: Case, plan: Plan) -> Draft:
    """The lists after a plan; what it asks for that is so already is no change."""
    watched = {group.name: group for group in case.job.groups if group.steward is Steward.MASTER}
    control = {group.name for group in case.job.groups if group.is_control}
    asked = {*plan.groups, *(pod.group for pod in (*plan.create, *plan.remove, *plan.migrate))} - control
    if strangers := sorted(asked - watched.keys()):
        known = ", ".join(sorted(watched)) or "none"
        return Draft(problem=f"the job has no replicas of type {', '.join(strangers)}; it has {known}")
    changes: dict[str, Change] = {}
    told: list[str] = []
    if plan.hosts and plan.hosts != case.state.hosts:
        told.append(f"there are {counted(len(plan.hosts), 'parameter server')} now")
    for name, group in watched.items():
        before = case.state.group(name)
        change, words = _group_after(case, group, before, plan)
        told += words
        if change.memory != before or change.removals:
            changes[name] = change
    return Draft(
        groups={name: change.memory for name, change in changes.items()},
        pods=tuple(member_name(case.job, name, index) for name, each in changes.items() for index in each.added),
        removals=tuple(uid for each in changes.values() for uid in each.removals),
        changes=told,
    )


def _group_after(case: Case, group: Group, before: GroupState, plan: Plan) -> tuple[Change, list[str]]:
    places = case.roster.of(group)
    change, told = _counted(case, group, before, plan)
    for pod in plan.create:
        if pod.group == group.name:
            newcomer, words = _created(places, change.memory, pod)
            change, told = change.then(newcomer), told + words
    for pod in plan.remove:
        if pod.group == group.name and (found := _named(places, pod)):
            leaving = [place for place in found if _is_there(place, change.memory)]
            change = change.then(sent_away(change.memory, leaving))
            told += [f"{place.title} leaves" for place in leaving]
    for pod in plan.migrate:
        if pod.group == group.name:
            apart = apart_from_master(case.job.options, is_by_hand=plan.is_manual)
            heir, words = _migrated(places, change.memory, pod, apart)
            change, told = change.then(heir), told + words
    return change, told


def _counted(case: Case, group: Group, before: GroupState, plan: Plan) -> tuple[Change, list[str]]:
    """By number: a size that its master has asked for before is no news, whatever people did since."""
    request = plan.groups.get(group.name)
    if request is None:
        return Change(memory=before), []
    who = Requester.PLAN if plan.is_manual else Requester.MASTER
    memory = _with_request(before, request, who, plan, case)
    if request.size is None:
        return Change(memory=memory), []
    size = wanted_size(group, memory)
    apart = apart_from_master(case.job.options, is_by_hand=plan.is_manual)
    change = resized_list(memory, case.roster.of(group), size, apart=apart)
    memory = replace(change.memory, size=size, is_capped=memory.latest is not Requester.MASTER)
    number = sum(place.standing not in OUT for place in case.roster.of(group))
    is_same = change.memory.members == before.members and not change.removals
    words = [] if is_same else [f"{group.name} from {number} to {size}"]
    return Change(memory=memory, added=change.added, removals=change.removals), words


def _with_request(memory: GroupState, request: GroupRequest, who: Requester, plan: Plan, case: Case) -> GroupState:
    resource = dict(request.resource) or memory.resource
    earlier = memory.requests.get(who)
    is_news = plan.is_manual or earlier is None or earlier.size != request.size
    if request.size is None or not is_news:
        return replace(memory, resource=resource)
    asked = Request(size=request.size, at=case.now, why=plan.reason)
    return replace(memory, resource=resource, requests={**memory.requests, who: asked})


def _created(places: tuple[Place, ...], memory: GroupState, pod: PodRequest) -> tuple[Change, list[str]]:
    """One more; one that is there already is no news."""
    if pod.id is not None and (pod.id in memory.members or any(place.rank.index == pod.id for place in places)):
        return Change(memory=memory), []
    index = memory.next_id if pod.id is None else pod.id
    rank = index if pod.rank is None else pod.rank
    before = [place.rank.member.relaunches for place in _at(places, rank) if place.rank.member is not None]
    before += [memory.holders[rank]] if rank in memory.holders else []
    member = Member(
        rank=rank,
        service=pod.service,
        port=pod.port,
        resource=dict(pod.resource) or memory.resource,
        relaunches=max(before, default=-1) + 1,
    )
    return with_newcomer(memory, member, index), [f"{pod.group}-{index} joins at rank {rank}"]


def _migrated(
    places: tuple[Place, ...], memory: GroupState, pod: PodRequest, apart: int
) -> tuple[Change, list[str]]:
    """A successor for one member, who stays until it runs."""
    # Some plans name the one that gives way, others the one that comes: a rank is held by the former.
    found = [place for place in _named(places, pod) or _at(places, pod.rank) if place.standing not in OUT]
    taken = {member.replaces for member in memory.members.values()}
    if not found or found[0].rank.index in taken:
        return Change(memory=memory), []
    place = found[0]
    old = place.rank.member or Member(rank=place.rank.index)
    member = Member(
        rank=old.rank,
        resource={**old.resource, **pod.resource},
        relaunches=old.relaunches,
        replaces=place.rank.index,
    )
    change = with_newcomer(memory, member, apart=apart)
    return change, [f"{place.title} gives way to {pod.group}-{change.added[0]}"]


def _named(places: tuple[Place, ...], pod: PodRequest) -> list[Place]:
    """Whom a plan means: by name, else by id, else by rank."""
    if pod.name and (found := [place for place in places if place.name == pod.name]):
        return found
    if pod.id is not None and (found := [place for place in places if place.rank.index == pod.id]):
        return found
    return [] if pod.name else _at(places, pod.rank)


def _at(places: tuple[Place, ...], rank: int | None) -> list[Place]:
    return [place for place in places if place.rank.member is not None and place.rank.member.rank == rank]


def _is_there(place: Place, memory: GroupState) -> bool:
    """Whether a member is still to be sent away: one that has been, or is leaving, is not."""
    if place.pod is not None and place.pod.is_foreign:
        return not place.pod.is_leaving
    return place.rank.index in memory.members
