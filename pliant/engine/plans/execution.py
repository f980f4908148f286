"""Plans: turned into lists of members one after the other, and forgotten once they are over."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.draft import ScalePlanDraft, draft_plan
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION, member_id_gap, resize_members
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.sizing import RESIZED_REASON, wanted_size
from pliant.engine.status.messages import join_names
from pliant.model.job import Job, MembershipSource
from pliant.model.labels import replica_pod_name
from pliant.model.observed import Observed
from pliant.model.scale_plans import PlanPhase, ScalePlan
from pliant.model.state import EngineState, GroupState, JobPhase, PlanExecution, SizeRequester

SCALING_REASON = "Scaling"
"""What carrying out a plan is called in a job's story."""
PLAN_CLAIM_DELAY = timedelta(seconds=10)
"""How long a master that reads plans of people itself is given to take one."""


def execute_plans(context: Context) -> Transition | None:
    """Take on the next plan, or have members leave whose successors run by now."""
    return _complete_migrations(context) or apply_edited_sizes(context) or _start_next_plan(context)


def without_finished_plans(state: EngineState, observed: Observed) -> EngineState:
    """The memory without plans that are over or gone."""
    open_plans = {plan.uid for plan in observed.plans if plan.phase is None or not plan.phase.is_final}
    if all(uid in open_plans for uid in state.plan_executions):
        return state
    return replace(
        state, plan_executions={uid: each for uid, each in state.plan_executions.items() if uid in open_plans}
    )


def without_failed_members(state: EngineState, job: Job, observed: Observed) -> EngineState:
    """The memory without members whose plan has failed before their pods were made, or before they took over."""
    failed = {plan.uid for plan in observed.plans if plan.phase is PlanPhase.FAILED}
    lost = {name for uid, each in state.plan_executions.items() if uid in failed for name in each.added_pods}
    if not lost:
        return state
    groups = {}
    for group in job.groups:
        memory = state.group(group.name)
        members = {
            index: member
            for index, member in memory.members.items()
            if replica_pod_name(job, group.name, index) not in lost
            or (member.was_created and member.replaces_id is None)
        }
        if members != memory.members:
            groups[group.name] = replace(memory, members=members)
    return replace(state, groups={**state.groups, **groups}) if groups else state


def apply_edited_sizes(context: Context) -> Transition | None:
    """Take on sizes that people have set by editing the job; what its master asked for before gives way."""
    if context.state.phase is JobPhase.SUSPENDED:
        return None
    groups: dict[str, GroupState] = {}
    told = []
    for group in (
        group for group in context.requested_job.groups if group.membership_source is MembershipSource.MASTER
    ):
        memory = context.state.group(group.name)
        size = wanted_size(group, memory)
        if memory.latest_requester not in (SizeRequester.SPEC, SizeRequester.SCALE) or memory.applied_size in (
            None,
            size,
        ):
            continue
        apart = member_id_gap(context.job.framework_options, is_manual=True)
        change = resize_members(
            memory, context.replicas.in_group(context.job.group(group.name) or group), size, id_gap=apart
        )
        groups[group.name] = replace(change.group_state, applied_size=size, is_user_capped=True)
        told.append(f"{group.name} from {memory.applied_size} to {size}")
    if not groups:
        return None
    state = replace(context.state, groups={**context.state.groups, **groups})
    return make_transition(
        state, context.now, RESIZED_REASON, f"resizing {', '.join(told)} (replicas was edited)", is_warning=False
    )


def _start_next_plan(context: Context) -> Transition | None:
    """Write down what the next plan makes of the lists; pods follow."""
    if context.job.is_suspended or context.state.phase is JobPhase.SUSPENDED or has_pending_changes(context):
        return None
    plan = find_next_plan(context)
    if plan is None or plan.phase is not PlanPhase.PENDING:
        return None
    draft = draft_plan(context, plan)
    # If there is nothing to do, its status tells, and the next one has its turn.
    return None if draft.problem or not draft.change_messages else _start_plan(context, plan, draft)


def _start_plan(context: Context, plan: ScalePlan, draft: ScalePlanDraft) -> Transition:
    why = plan.reason or ("by hand" if plan.is_manual else "")
    scaling = PlanExecution(
        plan_name=plan.key.name,
        started_at=context.now,
        message=why,
        added_pods=draft.added_pods,
        removed_pod_uids=draft.removed_pod_uids,
    )
    state = replace(
        context.state,
        groups={**context.state.groups, **draft.group_states},
        plan_executions={**context.state.plan_executions, plan.uid: scaling},
        ps_hosts=plan.ps_hosts or context.state.ps_hosts,
    )
    message = f"{plan.key.name}: {join_names(draft.change_messages)}" + (f" ({why})" if why else "")
    return make_transition(state, context.now, SCALING_REASON, message, is_warning=False)


def _complete_migrations(context: Context) -> Transition | None:
    """Let those go whose successors run; a successor that failed leaves things as they were."""
    groups: dict[str, GroupState] = {}
    told: list[str] = []
    plans = context.state.plan_executions
    for place in context.replicas.all:
        member, name = place.rank.member, place.rank.group.name
        if member is None or member.replaces_id is None or not place.state.has_started:
            continue
        memory = groups.get(name, context.state.group(name))
        members = {**memory.members, place.rank.index: replace(member, replaces_id=None)}
        if place.state is not ReplicaState.FAILED:
            members.pop(member.replaces_id, None)
            told.append(f"{place.display_name} takes over from {name}-{member.replaces_id}")
            plans = _with_removed_pod(context, plans, place)
        groups[name] = replace(memory, members=members)
    if not groups:
        return None
    state = replace(context.state, groups={**context.state.groups, **groups}, plan_executions=plans)
    message = join_names(told) if told else "a successor failed: the member it was to replace stays"
    return make_transition(state, context.now, SCALING_REASON, message, is_warning=not told)


def _with_removed_pod(
    context: Context, executions: dict[str, PlanExecution], successor: Replica
) -> dict[str, PlanExecution]:
    """The plans under way, that of this successor with the pod to go, if the job's master made it itself."""
    old = successor.rank.member.replaces_id if successor.rank.member else None
    uids = tuple(
        place.pod.uid
        for place in context.replicas.in_group(successor.rank.group)
        if place.pod is not None and place.pod.is_external and place.rank.index == old
    )
    return {
        uid: replace(each, removed_pod_uids=(*each.removed_pod_uids, *uids))
        if uids and successor.pod_name in each.added_pods
        else each
        for uid, each in executions.items()
    }


def find_next_plan(context: Context) -> ScalePlan | None:
    """The plan whose turn it is: the oldest that is open, and for the operator to carry out."""
    return next(
        (plan for plan in context.observed.plans if _is_open(context, plan) and is_plan_due(context, plan)), None
    )


def _is_open(context: Context, plan: ScalePlan) -> bool:
    is_over = plan.phase is not None and plan.phase.is_final
    return not is_over and not plan.parse_error and plan.uid not in context.state.plan_executions


def has_pending_changes(context: Context) -> bool:
    """Whether members of an earlier plan are still to be made or to be sent away.

    Whom the cluster would not let in, and no plan asks for any more, must not be waited for by those that come.
    """
    pods = {name for each in context.state.plan_executions.values() for name in each.added_pods}
    if any(place.state is ReplicaState.ABSENT and place.pod_name in pods for place in list_master_managed(context)):
        return True
    sent = {uid for each in context.state.plan_executions.values() for uid in each.removed_pod_uids}
    return any(pod.uid in sent and not pod.is_terminating for pod in context.observed.pods)


def list_master_managed(context: Context) -> list[Replica]:
    """The places of those whom a master looks after."""
    return [place for place in context.replicas.all if place.rank.group.membership_source is MembershipSource.MASTER]


def is_plan_due(context: Context, plan: ScalePlan) -> bool:
    """Whether it is for the operator to carry out, and time for it."""
    if not plan.is_manual or context.job.framework_options.get(PLIANT_MASTER_OPTION):
        return True
    return not plan.is_claimed and context.now >= plan.created_at + PLAN_CLAIM_DELAY
