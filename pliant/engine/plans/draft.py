"""What a plan makes of the lists of members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from pliant.engine.context import Context
from pliant.engine.plans.membership import GONE_STATES, MAX_ID_JUMP, MembershipChange, member_id_gap, resize_members
from pliant.engine.plans.pod_requests import MemberIndex, create_requested, migrate_requested, remove_requested
from pliant.engine.sizing import wanted_size
from pliant.engine.status.messages import join_names, pluralize
from pliant.model.job import MembershipSource, ReplicaGroup
from pliant.model.labels import replica_pod_name
from pliant.model.scale_plans import GroupRequest, PodRequest, ScalePlan
from pliant.model.state import GroupState, SizeRequest, SizeRequester

MAX_STATE_BYTES = 1_000_000
"""Bytes of all lists, and of names in the plan: a job's own object holds them, and clusters take 1.5 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlanDraft:
    """The lists as a plan wants them; nothing is changed where there are no changes."""

    group_states: Mapping[str, GroupState] = field(default_factory=dict)
    added_pods: tuple[str, ...] = ()
    """The names of pods to be made."""
    removed_pod_uids: tuple[str, ...] = ()
    """The uids of pods that a master made and that have to go."""
    change_messages: list[str] = field(default_factory=list)
    """In words."""
    problem: str = ""
    """Why it cannot be done."""


def draft_plan(context: Context, plan: ScalePlan) -> ScalePlanDraft:
    """The lists after a plan; what it asks for that is so already is no change."""
    watched = {group.name: group for group in context.job.groups if group.membership_source is MembershipSource.MASTER}
    control = {group.name for group in context.job.groups if group.is_master}
    asked = {
        *plan.group_requests,
        *(pod.group for pod in (*plan.create_pods, *plan.remove_pods, *plan.migrate_pods)),
    } - control
    if strangers := sorted(asked - watched.keys()):
        known = ", ".join(sorted(watched)) or "none"
        return ScalePlanDraft(problem=f"the job has no replicas of type {join_names(strangers)}; it has {known}")
    if leap := next((pod for pod in plan.create_pods if _is_id_jump_too_large(context, pod)), None):
        following = context.state.group(leap.group).next_member_id
        return ScalePlanDraft(problem=f"{leap.group}-{leap.id}: the id is far beyond the next one, {following}")
    changes: dict[str, MembershipChange] = {}
    told: list[str] = []
    if plan.ps_hosts and plan.ps_hosts != context.state.ps_hosts:
        told.append(f"there are {pluralize(len(plan.ps_hosts), 'parameter server')} now")
    for name, group in watched.items():
        before = context.state.group(name)
        change, words = _draft_group(context, group, before, plan)
        told += words
        if change.group_state != before or change.removed_pod_uids:
            changes[name] = change
    pods = tuple(
        replica_pod_name(context.job, name, index) for name, each in changes.items() for index in each.added_ids
    )
    after = {**context.state.groups, **{name: change.group_state for name, change in changes.items()}}
    if (size := len(msgspec.json.encode((after, pods)))) > MAX_STATE_BYTES:
        number = sum(len(memory.members) for memory in after.values())
        return ScalePlanDraft(
            problem=f"it makes a list of {number:,} members, {size:,} bytes long: at most {MAX_STATE_BYTES:,}"
        )
    return ScalePlanDraft(
        group_states={name: change.group_state for name, change in changes.items()},
        added_pods=pods,
        removed_pod_uids=tuple(uid for each in changes.values() for uid in each.removed_pod_uids),
        change_messages=told,
    )


def _is_id_jump_too_large(context: Context, request: PodRequest) -> bool:
    """Whether an id would use up those of a job's later members: none is used twice."""
    return request.id is not None and request.id >= context.state.group(request.group).next_member_id + MAX_ID_JUMP


def _draft_group(
    context: Context, group: ReplicaGroup, group_state: GroupState, plan: ScalePlan
) -> tuple[MembershipChange, list[str]]:
    change, told = _draft_size_change(context, group, group_state, plan)
    create, remove, migrate = (
        [pod for pod in pods if pod.group == group.name]
        for pods in (plan.create_pods, plan.remove_pods, plan.migrate_pods)
    )
    if not (create or remove or migrate):
        return change, told
    enrolled = MemberIndex(context.replicas.in_group(group))
    newcomers, words = create_requested(enrolled, change.group_state, create)
    change, told = change.then(newcomers), told + words
    leavers, words = remove_requested(enrolled, change.group_state, remove)
    change, told = change.then(leavers), told + words
    apart = member_id_gap(context.job.framework_options, is_manual=plan.is_manual)
    heirs, words = migrate_requested(enrolled, change.group_state, migrate, apart)
    return change.then(heirs), told + words


def _draft_size_change(
    context: Context, group: ReplicaGroup, group_state: GroupState, plan: ScalePlan
) -> tuple[MembershipChange, list[str]]:
    """By number: a size that its master has asked for before is no news, whatever people did since."""
    request = plan.group_requests.get(group.name)
    if request is None:
        return MembershipChange(group_state=group_state), []
    who = SizeRequester.MANUAL_PLAN if plan.is_manual else SizeRequester.MASTER
    memory = _with_size_request(group_state, request, who, plan, context)
    if request.size is None:
        return MembershipChange(group_state=memory), []
    size = wanted_size(group, memory)
    apart = member_id_gap(context.job.framework_options, is_manual=plan.is_manual)
    change = resize_members(memory, context.replicas.in_group(group), size, id_gap=apart)
    memory = replace(
        change.group_state, applied_size=size, is_user_capped=memory.latest_requester is not SizeRequester.MASTER
    )
    number = sum(place.state not in GONE_STATES for place in context.replicas.in_group(group))
    is_same = change.group_state.members == group_state.members and not change.removed_pod_uids
    words = [] if is_same else [f"{group.name} from {number} to {size}"]
    return MembershipChange(
        group_state=memory, added_ids=change.added_ids, removed_pod_uids=change.removed_pod_uids
    ), words


def _with_size_request(
    group_state: GroupState, request: GroupRequest, requester: SizeRequester, plan: ScalePlan, context: Context
) -> GroupState:
    resource = dict(request.resources) or group_state.member_resources
    earlier = group_state.size_requests.get(requester)
    is_news = plan.is_manual or earlier is None or earlier.size != request.size
    if request.size is None or not is_news:
        return replace(group_state, member_resources=resource)
    asked = SizeRequest(size=request.size, at=context.now, message=plan.reason)
    return replace(
        group_state, member_resources=resource, size_requests={**group_state.size_requests, requester: asked}
    )
