"""Status updates and garbage collection of ScalePlans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pliant.engine.context import Context
from pliant.engine.plans.claimed_plans import claimed_plan_deadline, claimed_plan_phase, is_executed_by_master
from pliant.engine.plans.draft import ScalePlanDraft, draft_plan
from pliant.engine.plans.execution import (
    find_next_plan,
    has_pending_plan_changes,
    is_plan_for_operator,
    list_master_managed,
)
from pliant.engine.pods.replicas import ReplicaState
from pliant.model.actions import Action, DeleteScalePlan
from pliant.model.english import render, summarize_names
from pliant.model.scale_plans import PlanPhase, PlanStatus, ScalePlan
from pliant.model.state import PlanExecution


class _SelectedPlan(NamedTuple):
    plan: ScalePlan
    draft: ScalePlanDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUpdates:
    actions: tuple[Action, ...] = ()
    statuses: Mapping[str, PlanStatus] = field(default_factory=dict)
    requeue_after: timedelta | None = None


def sync_plans(context: Context) -> PlanUpdates:
    """Return the status updates of the plans of a job, and delete obsolete and expired plans."""
    if not context.observed.plans:
        return PlanUpdates()
    observed, selected = context.observed, _select_next_plan(context)
    deleted = {plan.uid: plan for plan in (*_list_obsolete(context, selected), *_list_expired(context))}
    statuses = {
        plan.key.name: status
        for plan in observed.plans
        if plan.uid not in deleted and (status := _status_change(context, plan, selected)) is not None
    }
    waits = [*_times_to_expiry(context), *_times_to_timeout(context)]
    return PlanUpdates(
        actions=tuple(DeleteScalePlan(name=plan.key.name, uid=plan.uid) for plan in deleted.values()),
        statuses=statuses,
        requeue_after=min((wait for wait in waits if wait > timedelta(0)), default=None),
    )


def fail_open_plans(context: Context) -> PlanUpdates:
    """Fail the unfinished plans of a job that has ended, and delete expired ones."""
    open_plans = [plan for plan in context.observed.plans if plan.phase is None or not plan.phase.is_final]
    waits = [wait for wait in _times_to_expiry(context) if wait > timedelta(0)]
    return PlanUpdates(
        actions=tuple(DeleteScalePlan(name=plan.key.name, uid=plan.uid) for plan in _list_expired(context)),
        statuses={
            plan.key.name: PlanStatus(
                phase=PlanPhase.FAILED, message="the job has ended", at=context.now, observed_generation=plan.generation
            )
            for plan in open_plans
        },
        requeue_after=min(waits, default=None),
    )


def _select_next_plan(context: Context) -> _SelectedPlan | None:
    """Return the plan to start next and its effect; None while a plan is in execution."""
    if context.job.is_suspended or has_pending_plan_changes(context) or (plan := find_next_plan(context)) is None:
        return None
    return _SelectedPlan(plan, draft_plan(context, plan))


def _status_change(context: Context, plan: ScalePlan, selected: _SelectedPlan | None) -> PlanStatus | None:
    if plan.phase is not None and plan.phase.is_final:
        return None
    phase, message = _plan_phase(context, plan, selected)
    if (phase, message) == (plan.phase, plan.status_message):
        return None
    return PlanStatus(phase=phase, message=message, at=context.now, observed_generation=plan.generation)


def _plan_phase(context: Context, plan: ScalePlan, selected: _SelectedPlan | None) -> tuple[PlanPhase, str]:
    execution = context.state.plan_executions.get(plan.uid)
    if execution is not None:
        return _execution_phase(context, plan, execution)
    if plan.parse_error:
        return PlanPhase.FAILED, plan.parse_error
    if plan.phase is None:
        return PlanPhase.CREATED, plan.reason
    if is_executed_by_master(context, plan):
        return claimed_plan_phase(context, plan)
    if context.job.is_suspended:
        return PlanPhase.PENDING, "waiting: the job is suspended"
    if not is_plan_for_operator(context, plan):
        claims = context.job.master is not None and context.job.master.claims_manual_plans
        expected = "claim the plan" if claims else "request the first members"
        return PlanPhase.PENDING, f"waiting for the job's master to {expected}"
    if selected is None or selected.plan is not plan:
        return PlanPhase.PENDING, "waiting for an earlier plan"
    if selected.draft.problem:
        return PlanPhase.FAILED, selected.draft.problem
    if plan.phase is PlanPhase.PENDING and not selected.draft.change_messages:
        return PlanPhase.SUCCEEDED, "no changes required"
    return PlanPhase.PENDING, ""


def _execution_phase(context: Context, plan: ScalePlan, execution: PlanExecution) -> tuple[PlanPhase, str]:
    if plan.phase in (None, PlanPhase.CREATED):
        return PlanPhase.PENDING, ""  # a plan passes through every phase
    if plan.phase is PlanPhase.PENDING:
        return PlanPhase.SCALING, execution.message
    added_pods, removed_uids = frozenset(execution.added_pods), frozenset(execution.removed_pod_uids)
    added = [replica for replica in list_master_managed(context) if replica.pod_name in added_pods]
    missing = [replica.pod_name for replica in added if replica.state is ReplicaState.ABSENT]
    members = [(replica, replica.rank.member) for replica in added if replica.rank.member is not None]
    migrating = [replica.display_name for replica, member in members if member.replaces_id is not None]
    leaving = [pod.name for pod in context.observed.pods if pod.uid in removed_uids]
    if not missing and not migrating and not leaving:
        staying = [pod.name for pod in context.observed.pods if pod.uid in execution.replaced_pod_uids]
        if staying:
            return PlanPhase.FAILED, f"{summarize_names(staying)} stays: the replacement failed"
        return PlanPhase.SUCCEEDED, execution.message
    errors = context.observed.create_errors
    message, problems = "", [render(errors[name]) for name in missing if name in errors]
    if problems:
        message = summarize_names(problems)
    elif migrating:
        message = f"waiting for {summarize_names(migrating)} to run"
    if context.now >= execution.started_at + context.config.plan_timeout:
        remaining = f": {summarize_names(leaving)} still exists" if leaving else ""
        return PlanPhase.FAILED, message or f"not completed within {context.config.plan_timeout}{remaining}"
    return PlanPhase.SCALING, message or execution.message


def _list_obsolete(context: Context, selected: _SelectedPlan | None) -> Iterator[ScalePlan]:
    """Yield plans of masters that change nothing or whose master is gone: a new master reuses their names."""
    since, is_first = _master_started_at(context)
    for plan in context.observed.plans:
        if plan.is_manual or plan.uid in context.state.plan_executions:
            continue
        # An unfinished plan from before the first master was created by a user on its behalf.
        is_older = since is not None and plan.created_at < since
        is_of_old_master = is_older and not (is_first and (plan.phase is None or not plan.phase.is_final))
        requests = (plan.group_requests, plan.create_pods, plan.remove_pods, plan.migrate_pods, plan.server_addresses)
        is_empty = not any(requests) and not plan.parse_error
        draft = selected.draft if selected is not None and selected.plan is plan else None
        changes_nothing = draft is not None and not draft.problem and not draft.change_messages
        if is_of_old_master or is_empty or changes_nothing:
            yield plan


def _master_started_at(context: Context) -> tuple[datetime | None, bool]:
    """Return when the current master started, and whether it is the first one of the job."""
    masters = [each for each in context.replicas.all if each.rank.group.is_master and each.pod is not None]
    times = [each.pod.started_at for each in masters if each.pod is not None and each.pod.started_at is not None]
    return max(times, default=None), all(each.rank.attempt == 0 for each in masters)


def _list_expired(context: Context) -> Iterator[ScalePlan]:
    """Yield finished plans of masters beyond the TTL or the history limit."""
    observed, config = context.observed, context.config
    plans = [plan for plan in observed.plans if plan.phase is not None and plan.phase.is_final and not plan.is_manual]
    plans.sort(key=lambda plan: (plan.finished_at or plan.created_at, plan.key.name), reverse=True)
    for number, plan in enumerate(plans):
        age = context.now - (plan.finished_at or plan.created_at)
        if number >= config.plan_history_limit or age >= config.plan_ttl:
            yield plan


def _times_to_expiry(context: Context) -> Iterator[timedelta]:
    for plan in context.observed.plans:
        if plan.finished_at is not None and not plan.is_manual:
            yield plan.finished_at + context.config.plan_ttl - context.now


def _times_to_timeout(context: Context) -> Iterator[timedelta]:
    """Yield the times until plans in execution time out and until plans no longer wait for the master."""
    for execution in context.state.plan_executions.values():
        yield execution.started_at + context.config.plan_timeout - context.now
    for plan in context.observed.plans:
        if plan.phase is PlanPhase.SCALING and is_executed_by_master(context, plan):
            yield claimed_plan_deadline(context, plan) - context.now
        elif context.job.master is not None and plan.is_manual and plan.phase is PlanPhase.PENDING:
            yield plan.created_at + context.job.master.manual_plan_timeout - context.now
