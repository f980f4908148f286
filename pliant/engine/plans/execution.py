"""Execution of ScalePlans: one after the other they change the membership lists."""

from __future__ import annotations

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.draft import ScalePlanDraft, draft_plan
from pliant.engine.plans.member_list import member_id_gap, resize_members
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.sizing import RESIZED_REASON, wanted_size
from pliant.model.job import Job
from pliant.model.labels import replica_pod_name
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import Observed
from pliant.model.scale_plans import PlanPhase, ScalePlan
from pliant.model.state import EngineState, GroupState, PlanExecution, SizeRequester

SCALING_REASON = "Scaling"


def without_finished_plan_executions(state: EngineState, observed: Observed) -> EngineState:
    """Drop the executions of plans that are finished or deleted."""
    open_plans = {plan.uid for plan in observed.plans if plan.phase is None or not plan.phase.is_final}
    if all(uid in open_plans for uid in state.plan_executions):
        return state
    executions = {uid: execution for uid, execution in state.plan_executions.items() if uid in open_plans}
    return replace(state, plan_executions=executions)


def without_members_of_failed_plans(state: EngineState, job: Job, observed: Observed) -> EngineState:
    """Drop members whose plan failed before their pods were created or before they replaced another member."""
    failed = {plan.uid for plan in observed.plans if plan.phase is PlanPhase.FAILED}
    pods = {name for uid, each in state.plan_executions.items() if uid in failed for name in each.added_pods}
    if not pods:
        return state
    groups = {}
    for group in job.groups:
        group_state = state.group(group.name)
        members = {
            member_id: member
            for member_id, member in group_state.members.items()
            if replica_pod_name(job, group.name, member_id) not in pods
            or (member.was_created and member.replaces_id is None)
        }
        if members != group_state.members:
            groups[group.name] = replace(group_state, members=members)
    return replace(state, groups={**state.groups, **groups}) if groups else state


def apply_edited_sizes(context: Context) -> Transition | None:
    """Apply sizes that a user set in the spec; they override earlier requests of the master."""
    groups: dict[str, GroupState] = {}
    changes = []
    id_gap = member_id_gap(context.job.master, is_manual=True)
    for group in context.spec.groups:
        group_state = context.state.group(group.name)
        size = wanted_size(group, group_state)
        is_edited = group_state.latest_requester in (SizeRequester.SPEC, SizeRequester.SCALE)
        is_managed = group.is_master_managed
        if not is_managed or not is_edited or group_state.applied_size in (None, size):
            continue
        replicas = context.replicas.in_group(context.job.group(group.name) or group)
        change = resize_members(group_state, replicas, size, id_gap=id_gap)
        groups[group.name] = replace(change.group_state, applied_size=size, is_user_capped=True)
        changes.append(
            message(
                MessageReason.GROUP_RESIZED,
                group=group.name,
                before=group_state.applied_size or 0,
                after=size,
                requestedBy=str(SizeRequester.SPEC),
            )
        )
    if not groups:
        return None
    state = replace(context.state, groups={**context.state.groups, **groups})
    resized = Message(MessageReason.GROUPS_RESIZED, {}, tuple(changes))
    return make_transition(state, context.now, RESIZED_REASON, resized, is_warning=False)


def start_next_plan(context: Context) -> Transition | None:
    """Persist the membership changes of the next plan; the next reconciliation creates and deletes the pods."""
    if context.job.is_suspended or has_pending_plan_changes(context):
        return None
    plan = find_next_plan(context)
    if plan is None or plan.phase is not PlanPhase.PENDING:
        return None
    draft = draft_plan(context, plan)
    # A plan without changes succeeds at once; see plan_status.
    return None if draft.problem or not draft.change_messages else _start_plan(context, plan, draft)


def _start_plan(context: Context, plan: ScalePlan, draft: ScalePlanDraft) -> Transition:
    reason = plan.reason or ("manual" if plan.is_manual else "")
    execution = PlanExecution(
        plan_name=plan.key.name,
        started_at=context.now,
        message=reason,
        added_pods=draft.added_pods,
        removed_pod_uids=draft.removed_pod_uids,
        replaced_pod_uids=draft.replaced_pod_uids,
    )
    state = replace(
        context.state,
        groups={**context.state.groups, **draft.group_states},
        plan_executions={**context.state.plan_executions, plan.uid: execution},
        server_addresses=plan.server_addresses or context.state.server_addresses,
    )
    started = message(MessageReason.PLAN_STARTED, draft.change_messages, plan=plan.key.name, message=reason or None)
    return make_transition(state, context.now, SCALING_REASON, started, is_warning=False)


def complete_migrations(context: Context) -> Transition | None:
    """Remove members whose replacements run; if a replacement failed, the member stays."""
    groups: dict[str, GroupState] = {}
    replaced: list[Message] = []
    executions = context.state.plan_executions
    for replica in context.replicas.all:
        member, name = replica.rank.member, replica.rank.group.name
        if member is None or member.replaces_id is None or not replica.state.has_started:
            continue
        group_state = groups.get(name, context.state.group(name))
        members = {**group_state.members, replica.rank.index: replace(member, replaces_id=None)}
        if replica.state is not ReplicaState.FAILED:
            members.pop(member.replaces_id, None)
            replaced.append(
                message(
                    MessageReason.MEMBER_REPLACES, member=replica.display_name, replaced=f"{name}-{member.replaces_id}"
                )
            )
            executions = _with_removed_pod(context, executions, replica)
        groups[name] = replace(group_state, members=members)
    if not groups:
        return None
    state = replace(context.state, groups={**context.state.groups, **groups}, plan_executions=executions)
    if not replaced:
        return make_transition(state, context.now, SCALING_REASON, message(MessageReason.REPLACEMENT_FAILED))
    migrated = message(MessageReason.MEMBERS_REPLACED, replaced)
    return make_transition(state, context.now, SCALING_REASON, migrated, is_warning=False)


def _with_removed_pod(
    context: Context, executions: dict[str, PlanExecution], successor: Replica
) -> dict[str, PlanExecution]:
    """Add the replaced pod to the pods that the plan of its successor removes."""
    replaced_id = successor.rank.member.replaces_id if successor.rank.member else None
    uids = tuple(
        replica.pod.uid
        for replica in context.replicas.in_group(successor.rank.group)
        if replica.pod is not None and replica.rank.index == replaced_id
    )
    return {
        uid: replace(each, removed_pod_uids=(*each.removed_pod_uids, *uids))
        if uids and successor.pod_name in each.added_pods
        else each
        for uid, each in executions.items()
    }


def find_next_plan(context: Context) -> ScalePlan | None:
    plans = (
        plan for plan in context.observed.plans if _is_waiting(context, plan) and is_plan_for_operator(context, plan)
    )
    return next(plans, None)


def _is_waiting(context: Context, plan: ScalePlan) -> bool:
    is_finished = plan.phase is not None and plan.phase.is_final
    return not is_finished and not plan.parse_error and plan.uid not in context.state.plan_executions


def has_pending_plan_changes(context: Context) -> bool:
    """Return whether the plans in execution still have pods to create or to delete.

    Absent members of finished plans are not considered: later plans must not wait for them.
    """
    executions = context.state.plan_executions.values()
    added = {name for execution in executions for name in execution.added_pods}
    if any(each.state is ReplicaState.ABSENT and each.pod_name in added for each in list_master_managed(context)):
        return True
    removed = {uid for execution in executions for uid in execution.removed_pod_uids}
    return any(pod.uid in removed and not pod.is_terminating for pod in context.observed.pods)


def list_master_managed(context: Context) -> list[Replica]:
    return [each for each in context.replicas.all if each.rank.group.is_master_managed]


def is_plan_for_operator(context: Context, plan: ScalePlan) -> bool:
    """Return whether the operator executes the plan now: not its master, and not before the master's first request."""
    master = context.job.master
    if not plan.is_manual or master is None:
        return True
    is_overdue = context.now >= plan.created_at + master.manual_plan_timeout
    return not plan.is_claimed and is_overdue if master.claims_manual_plans else is_overdue or _has_had_members(context)


def _has_had_members(context: Context) -> bool:
    """Return whether anybody has requested members.

    The master takes over members that exist, so a user's plan for some types would leave the job without the others.
    """
    states = (context.state.group(group.name) for group in context.job.groups if group.is_master_managed)
    return any(each.members or each.next_member_id for each in states)
