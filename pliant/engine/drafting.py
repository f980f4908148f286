"""What a plan makes of the lists of members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from pliant.engine.case import Case
from pliant.engine.enlisting import Enrolled, created, migrated, removed
from pliant.engine.members import LEAP, OUT, Change, apart_from_master, resized_list
from pliant.engine.sizing import wanted_size
from pliant.engine.wording import counted, listing
from pliant.model.job import Group, Steward
from pliant.model.labels import member_name
from pliant.model.plans import GroupRequest, Plan, PodRequest
from pliant.model.state import GroupState, Request, Requester

MOST_MEMORY = 1_000_000
"""Bytes of all lists, and of names in the plan: a job's own object holds them, and clusters take 1.5 MB."""


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
        return Draft(problem=f"the job has no replicas of type {listing(strangers)}; it has {known}")
    if leap := next((pod for pod in plan.create if _is_leap(case, pod)), None):
        following = case.state.group(leap.group).next_id
        return Draft(problem=f"{leap.group}-{leap.id}: the id is far beyond the next one, {following}")
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
    pods = tuple(member_name(case.job, name, index) for name, each in changes.items() for index in each.added)
    after = {**case.state.groups, **{name: change.memory for name, change in changes.items()}}
    if (size := len(msgspec.json.encode((after, pods)))) > MOST_MEMORY:
        number = sum(len(memory.members) for memory in after.values())
        return Draft(
            problem=f"it makes a list of {number:,} members, {size:,} bytes long: at most {MOST_MEMORY:,}"
        )
    return Draft(
        groups={name: change.memory for name, change in changes.items()},
        pods=pods,
        removals=tuple(uid for each in changes.values() for uid in each.removals),
        changes=told,
    )


def _is_leap(case: Case, pod: PodRequest) -> bool:
    """Whether an id would use up those of a job's later members: none is used twice."""
    return pod.id is not None and pod.id >= case.state.group(pod.group).next_id + LEAP


def _group_after(case: Case, group: Group, before: GroupState, plan: Plan) -> tuple[Change, list[str]]:
    change, told = _counted(case, group, before, plan)
    create, remove, migrate = (
        [pod for pod in pods if pod.group == group.name] for pods in (plan.create, plan.remove, plan.migrate)
    )
    if not (create or remove or migrate):
        return change, told
    enrolled = Enrolled(case.roster.of(group))
    newcomers, words = created(enrolled, change.memory, create)
    change, told = change.then(newcomers), told + words
    leavers, words = removed(enrolled, change.memory, remove)
    change, told = change.then(leavers), told + words
    apart = apart_from_master(case.job.options, is_by_hand=plan.is_manual)
    heirs, words = migrated(enrolled, change.memory, migrate, apart)
    return change.then(heirs), told + words


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
