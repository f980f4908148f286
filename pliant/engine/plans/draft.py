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
    new_member_resources,
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
    replaced_pod_uids: tuple[str, ...] = ()
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
    removed_uids = tuple(uid for each in changes.values() for uid in each.removed_pod_uids)
    replaced_uids = tuple(uid for each in changes.values() for uid in each.replaced_pod_uids)
    if (size := len(msgspec.json.encode((after, pods, removed_uids, replaced_uids)))) > MAX_MEMBERSHIP_BYTES:
        number = sum(len(group_state.members) for group_state in after.values())
        problem = f"the list of {number:,} members takes {size:,} bytes, the limit is {MAX_MEMBERSHIP_BYTES:,}"
        return ScalePlanDraft(problem=problem)
    return ScalePlanDraft(
        group_states=group_states,
        added_pods=pods,
        removed_pod_uids=removed_uids,
        replaced_pod_uids=replaced_uids,
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
    # A master does not expect that the job has other bounds than its own: its sizes are limited instead.
    problems = (_find_size_problem(managed_groups[name], each) for name, each in plan.group_requests.items())
    return next(filter(None, problems), "") if plan.is_manual else ""


def _find_size_problem(group: ReplicaGroup, request: PlanGroupRequest) -> str:
    path = f"spec.replicaResourceSpecs.{group.name}.replicas"
    if request.size is not None and group.max_size is not None and request.size > group.max_size:
        return f"{path}: must be at most maxReplicas of the job ({group.max_size}), got {request.size}"
    if request.size is not None and request.size < group.min_size:
        return f"{path}: must be at least minReplicas of the job ({group.min_size}), got {request.size}"
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
    created, create_messages = pod_requests.create_requested_members(
        index, change.group_state, create, is_manual=plan.is_manual
    )
    change = change.followed_by(created)
    removed, remove_messages = pod_requests.remove_requested_members(index, change.group_state, remove)
    change = change.followed_by(removed)
    migrated, migrate_messages = pod_requests.migrate_requested_members(
        index, change.group_state, migrate, context.job.master, is_manual=plan.is_manual
    )
    return change.followed_by(migrated), [*messages, *create_messages, *remove_messages, *migrate_messages]


def _draft_size_change(
    context: Context, group: ReplicaGroup, group_state: GroupState, plan: ScalePlan
) -> tuple[MembershipChange, list[Message]]:
    """Apply the requested size; repeating its last request does not let the master override later user requests."""
    request = plan.group_requests.get(group.name)
    if request is None:
        return MembershipChange(group_state=group_state), []
    requester = SizeRequester.MANUAL_PLAN if plan.is_manual else SizeRequester.MASTER
    requested = _with_resource_request(group_state, request, is_manual=plan.is_manual)
    messages = []
    if requested.member_resources != group_state.member_resources:
        amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(requested.member_resources.items()))
        messages.append(message(MessageReason.MEMBER_RESOURCES_CHANGED, group=group.name, resources=amounts))
    requested = _with_size_request(requested, request, requester, plan, context)
    if request.size is None:
        return MembershipChange(group_state=requested), messages
    replicas, size = context.replicas.in_group(group), wanted_size(group, requested)
    id_gap = member_id_gap(context.job.master, is_manual=plan.is_manual)
    change = resize_members(requested, replicas, size, id_gap=id_gap)
    is_user_capped = requested.latest_requester is not SizeRequester.MASTER
    after = replace(change.group_state, applied_size=size, is_user_capped=is_user_capped)
    is_same = change.group_state.members == requested.members and not change.removed_pod_uids
    current_size = sum(replica.state not in VACATED_RANK_STATES for replica in replicas)
    resized = message(MessageReason.GROUP_RESIZED, group=group.name, before=current_size, after=size)
    return dataclasses.replace(change, group_state=after), messages if is_same else [resized]


def _with_resource_request(group_state: GroupState, request: PlanGroupRequest, *, is_manual: bool) -> GroupState:
    """Set the resources of new members, replacements included."""
    resources = new_member_resources(group_state, request.resources, is_manual=is_manual)
    if not is_manual:
        group_state = replace(group_state, master_resources={**group_state.master_resources, **request.resources})
    changed = dict(resources.items() - group_state.member_resources.items())
    if not changed:
        return group_state
    members = {
        member_id: replace(member, resources={**member.resources, **changed})
        for member_id, member in group_state.members.items()
    }
    return replace(group_state, member_resources=resources, members=members)


def _with_size_request(
    group_state: GroupState, request: PlanGroupRequest, requester: SizeRequester, plan: ScalePlan, context: Context
) -> GroupState:
    previous = group_state.size_requests.get(requester)
    is_new = plan.is_manual or previous is None or previous.size != request.size
    if request.size is None or not is_new:
        return group_state
    size_request = SizeRequest(size=request.size, at=context.now, message=plan.reason)
    return replace(group_state, size_requests={**group_state.size_requests, requester: size_request})
