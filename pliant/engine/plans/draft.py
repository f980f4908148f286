"""The membership changes that a ScalePlan requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from pliant.engine.context import Context
from pliant.engine.plans import pod_requests
from pliant.engine.plans.member_list import (
    MAX_ID_JUMP,
    VACATED_RANK_STATES,
    MembershipChange,
    member_id_gap,
    resize_members,
)
from pliant.engine.sizing import wanted_size
from pliant.model.english import summarize_names
from pliant.model.job import ReplicaGroup
from pliant.model.labels import replica_pod_name
from pliant.model.messages import Message, MessageReason, message
from pliant.model.scale_plans import PlanGroupRequest, ScalePlan
from pliant.model.state import GroupState, SizeRequest, SizeRequester

MAX_MEMBERSHIP_BYTES = 1_000_000
"""The limit of all membership lists together: they are part of the job object, and etcd accepts 1.5 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlanDraft:
    """The effect of a plan on the membership lists."""

    group_states: Mapping[str, GroupState] = field(default_factory=dict)
    added_pods: tuple[str, ...] = ()
    removed_pod_uids: tuple[str, ...] = ()
    """The UIDs of pods to delete that the master created."""
    change_messages: list[Message] = field(default_factory=list)
    """Empty if the plan changes nothing."""
    problem: str = ""
    """Why the plan cannot be executed."""


def draft_plan(context: Context, plan: ScalePlan) -> ScalePlanDraft:
    managed = {group.name: group for group in context.job.groups if group.is_master_managed}
    if problem := _find_problem(context, plan, managed):
        return ScalePlanDraft(problem=problem)
    changes: dict[str, MembershipChange] = {}
    messages: list[Message] = []
    if plan.server_addresses and plan.server_addresses != context.state.server_addresses:
        messages.append(message(MessageReason.SERVERS_LISTED, count=len(plan.server_addresses)))
    for name, group in managed.items():
        before = context.state.group(name)
        change, group_messages = _draft_group(context, group, before, plan)
        messages += group_messages
        if change.group_state != before or change.removed_pod_uids:
            changes[name] = change
    added = [(name, member_id) for name, change in changes.items() for member_id in change.added_ids]
    pods = tuple(replica_pod_name(context.job, name, member_id) for name, member_id in added)
    group_states = {name: change.group_state for name, change in changes.items()}
    after = {**context.state.groups, **group_states}
    if (size := len(msgspec.json.encode((after, pods)))) > MAX_MEMBERSHIP_BYTES:
        number = sum(len(group_state.members) for group_state in after.values())
        problem = f"the list of {number:,} members takes {size:,} bytes, the limit is {MAX_MEMBERSHIP_BYTES:,}"
        return ScalePlanDraft(problem=problem)
    return ScalePlanDraft(
        group_states=group_states,
        added_pods=pods,
        removed_pod_uids=tuple(uid for each in changes.values() for uid in each.removed_pod_uids),
        change_messages=messages,
    )


def _find_problem(context: Context, plan: ScalePlan, managed_groups: Mapping[str, ReplicaGroup]) -> str:
    pods = (*plan.create_pods, *plan.remove_pods, *plan.migrate_pods)
    requested = {*plan.group_requests, *(pod.group for pod in pods)}
    requested -= {group.name for group in context.job.groups if group.is_master}
    if unknown := sorted(requested - managed_groups.keys()):
        known = ", ".join(sorted(managed_groups)) or "none"
        return f"the job has no replicas of type {summarize_names(unknown)}; it has {known}"
    for pod in plan.create_pods:
        next_id = context.state.group(pod.group).next_member_id
        if pod.id is not None and pod.id >= next_id + MAX_ID_JUMP:  # IDs are never reused and must not run out
            return f"{pod.group}-{pod.id}: the ID is too far above the next ID, {next_id}"
    return ""


def _draft_group(
    context: Context, group: ReplicaGroup, group_state: GroupState, plan: ScalePlan
) -> tuple[MembershipChange, list[Message]]:
    change, messages = _draft_size_change(context, group, group_state, plan)
    requests = (plan.create_pods, plan.remove_pods, plan.migrate_pods)
    create, remove, migrate = ([pod for pod in pods if pod.group == group.name] for pods in requests)
    if not (create or remove or migrate):
        return change, messages
    index = pod_requests.MemberIndex(context.replicas.in_group(group))
    created, create_messages = pod_requests.create_requested_members(index, change.group_state, create)
    change = change.followed_by(created)
    removed, remove_messages = pod_requests.remove_requested_members(index, change.group_state, remove)
    change = change.followed_by(removed)
    id_gap = member_id_gap(context.job.master, is_manual=plan.is_manual)
    migrated, migrate_messages = pod_requests.migrate_requested_members(index, change.group_state, migrate, id_gap)
    return change.followed_by(migrated), [*messages, *create_messages, *remove_messages, *migrate_messages]


def _draft_size_change(
    context: Context, group: ReplicaGroup, group_state: GroupState, plan: ScalePlan
) -> tuple[MembershipChange, list[Message]]:
    """Apply the requested size; repeating its last request does not let the master override later user requests."""
    request = plan.group_requests.get(group.name)
    if request is None:
        return MembershipChange(group_state=group_state), []
    requester = SizeRequester.MANUAL_PLAN if plan.is_manual else SizeRequester.MASTER
    requested = _with_size_request(group_state, request, requester, plan, context)
    if request.size is None:
        return MembershipChange(group_state=requested), []
    replicas, size = context.replicas.in_group(group), wanted_size(group, requested)
    id_gap = member_id_gap(context.job.master, is_manual=plan.is_manual)
    change = resize_members(requested, replicas, size, id_gap=id_gap)
    is_user_capped = requested.latest_requester is not SizeRequester.MASTER
    after = replace(change.group_state, applied_size=size, is_user_capped=is_user_capped)
    is_same = change.group_state.members == group_state.members and not change.removed_pod_uids
    current_size = sum(replica.state not in VACATED_RANK_STATES for replica in replicas)
    resized = message(MessageReason.GROUP_RESIZED, group=group.name, before=current_size, after=size)
    return dataclasses.replace(change, group_state=after), [] if is_same else [resized]


def _with_size_request(
    group_state: GroupState, request: PlanGroupRequest, requester: SizeRequester, plan: ScalePlan, context: Context
) -> GroupState:
    group_state = replace(group_state, member_resources=dict(request.resources) or group_state.member_resources)
    previous = group_state.size_requests.get(requester)
    is_new = plan.is_manual or previous is None or previous.size != request.size
    if request.size is None or not is_new:
        return group_state
    size_request = SizeRequest(size=request.size, at=context.now, message=plan.reason)
    return replace(group_state, size_requests={**group_state.size_requests, requester: size_request})
