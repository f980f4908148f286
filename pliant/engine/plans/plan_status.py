"""What is told about plans, and when they are cleared away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pliant.engine.context import Context
from pliant.engine.plans.draft import ScalePlanDraft, draft_plan
from pliant.engine.plans.execution import (
    PLAN_CLAIM_DELAY,
    find_next_plan,
    has_pending_changes,
    is_plan_due,
    list_master_managed,
)
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION
from pliant.engine.pods.replicas import ReplicaState
from pliant.engine.status.messages import join_names
from pliant.model.actions import Action, DeleteScalePlan
from pliant.model.observed import Observed
from pliant.model.scale_plans import PlanPhase, PlanStatus, ScalePlan
from pliant.model.state import PlanExecution


class _SelectedPlan(NamedTuple):
    plan: ScalePlan
    draft: ScalePlanDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUpdates:
    """What there is to do about plans beside carrying them out."""

    actions: tuple[Action, ...] = ()
    statuses: Mapping[str, PlanStatus] = field(default_factory=dict)
    requeue_after: timedelta | None = None


def sync_plans(context: Context) -> PlanUpdates:
    """What to tell about plans, and which of them have had their day."""
    if not context.observed.plans:
        return PlanUpdates()
    turn = _select_next_plan(context)
    gone = {plan.uid: plan for plan in (*_list_obsolete(context, turn), *_list_expired(context.observed, context.now))}
    statuses = {
        plan.key.name: news
        for plan in context.observed.plans
        if plan.uid not in gone and (news := _status_change(context, plan, turn)) is not None
    }
    waits = [*_times_to_expiry(context.observed, context.now), *_times_to_timeout(context)]
    return PlanUpdates(
        actions=tuple(DeleteScalePlan(name=plan.key.name, uid=plan.uid) for plan in gone.values()),
        statuses=statuses,
        requeue_after=min((wait for wait in waits if wait > timedelta(0)), default=None),
    )


def fail_open_plans(observed: Observed, now: datetime) -> PlanUpdates:
    """What becomes of the plans of a job that has ended."""
    over = PlanStatus(phase=PlanPhase.FAILED, message="the job has ended", at=now)
    open_plans = [plan for plan in observed.plans if plan.phase is None or not plan.phase.is_final]
    waits = [wait for wait in _times_to_expiry(observed, now) if wait > timedelta(0)]
    return PlanUpdates(
        actions=tuple(DeleteScalePlan(name=plan.key.name, uid=plan.uid) for plan in _list_expired(observed, now)),
        statuses={plan.key.name: over for plan in open_plans},
        requeue_after=min(waits, default=None),
    )


def _select_next_plan(context: Context) -> _SelectedPlan | None:
    """Whose turn it is, and what would come of it; None while nobody has one."""
    if context.job.is_suspended or has_pending_changes(context) or (plan := find_next_plan(context)) is None:
        return None
    return _SelectedPlan(plan, draft_plan(context, plan))


def _status_change(context: Context, plan: ScalePlan, selected: _SelectedPlan | None) -> PlanStatus | None:
    """The status that a plan lacks; None if it tells the truth."""
    if plan.phase is not None and plan.phase.is_final:
        return None
    phase, message = _plan_phase(context, plan, selected)
    if (phase, message) == (plan.phase, plan.status_message):
        return None
    return PlanStatus(phase=phase, message=message, at=context.now)


def _plan_phase(context: Context, plan: ScalePlan, selected: _SelectedPlan | None) -> tuple[PlanPhase, str]:
    scaling = context.state.plan_executions.get(plan.uid)
    if scaling is not None:
        return _execution_phase(context, plan, scaling)
    if plan.parse_error:
        return PlanPhase.FAILED, plan.parse_error
    if plan.phase is None:
        return PlanPhase.CREATED, plan.reason
    if plan.is_manual and plan.is_claimed and not context.job.framework_options.get(PLIANT_MASTER_OPTION):
        return PlanPhase.SUCCEEDED, "the job's master has taken it, and answers with plans or pods of its own"
    if context.job.is_suspended:
        return PlanPhase.PENDING, "held: the job is suspended"
    if not is_plan_due(context, plan):
        return PlanPhase.PENDING, "waits a moment for the job's master to take it"
    if selected is None or selected.plan is not plan:
        return PlanPhase.PENDING, "waits for an earlier plan"
    if selected.draft.problem:
        return PlanPhase.FAILED, selected.draft.problem
    if plan.phase is PlanPhase.PENDING and not selected.draft.change_messages:
        return PlanPhase.SUCCEEDED, "there was nothing to change"
    return PlanPhase.PENDING, ""


def _execution_phase(context: Context, plan: ScalePlan, execution: PlanExecution) -> tuple[PlanPhase, str]:
    """How a plan fares that is being carried out."""
    if plan.phase in (None, PlanPhase.CREATED):
        return PlanPhase.PENDING, ""  # each state is shown, one after the other
    if plan.phase is PlanPhase.PENDING:
        return PlanPhase.SCALING, execution.message
    pods, removals = frozenset(execution.added_pods), frozenset(execution.removed_pod_uids)  # they may be thousands
    missing = [
        place.pod_name
        for place in list_master_managed(context)
        if place.state is ReplicaState.ABSENT and place.pod_name in pods
    ]
    heirs = [
        place.display_name
        for place in list_master_managed(context)
        if place.rank.member is not None and place.rank.member.replaces_id is not None and place.pod_name in pods
    ]
    staying = [pod.name for pod in context.observed.pods if pod.uid in removals and not pod.is_terminating]
    if not missing and not heirs and not staying:
        return PlanPhase.SUCCEEDED, execution.message
    refused = [
        f"cannot create {name}: {context.observed.create_errors[name]}"
        for name in missing
        if name in context.observed.create_errors
    ]
    waits = f"waits until {join_names(heirs)} runs" if heirs else execution.message
    said = join_names(refused) if refused else waits
    if context.now >= execution.started_at + context.config.plan_timeout:
        return PlanPhase.FAILED, said if refused or heirs else f"not done within {context.config.plan_timeout}"
    return PlanPhase.SCALING, said


def _list_obsolete(context: Context, selected: _SelectedPlan | None) -> Iterator[ScalePlan]:
    """Plans of masters that change nothing, or whose master is gone: others must be able to use their names."""
    since, is_first = _master_started_at(context)
    for plan in context.observed.plans:
        if plan.is_manual or plan.uid in context.state.plan_executions:
            continue
        # What was asked for before the first master began, somebody has written in its name.
        is_old = since is not None and plan.created_at < since
        is_of_another = is_old and not (is_first and (plan.phase is None or not plan.phase.is_final))
        says_nothing = not (
            plan.group_requests
            or plan.create_pods
            or plan.remove_pods
            or plan.migrate_pods
            or plan.ps_hosts
            or plan.parse_error
        )
        changes_nothing = (
            selected is not None
            and selected.plan is plan
            and not selected.draft.problem
            and not selected.draft.change_messages
        )
        if is_of_another or says_nothing or changes_nothing:
            yield plan


def _master_started_at(context: Context) -> tuple[datetime | None, bool]:
    """When the present master began, and whether there was none before it."""
    places = [place for place in context.replicas.all if place.rank.group.is_master and place.pod is not None]
    begun = [place.pod.started_at for place in places if place.pod is not None and place.pod.started_at is not None]
    return max(begun, default=None), all(place.rank.attempt == 0 for place in places)


def _list_expired(observed: Observed, now: datetime) -> Iterator[ScalePlan]:
    """Finished plans of masters, beyond what is kept."""
    done = [plan for plan in observed.plans if plan.phase is not None and plan.phase.is_final and not plan.is_manual]
    done = sorted(done, key=lambda plan: (plan.finished_at or plan.created_at, plan.key.name), reverse=True)
    for number, plan in enumerate(done):
        age = now - (plan.finished_at or plan.created_at)
        if number >= observed.config.plan_history_limit or age >= observed.config.plan_ttl:
            yield plan


def _times_to_expiry(observed: Observed, now: datetime) -> Iterator[timedelta]:
    """How long until finished plans have had their day."""
    for plan in observed.plans:
        if plan.finished_at is not None and not plan.is_manual:
            yield plan.finished_at + observed.config.plan_ttl - now


def _times_to_timeout(context: Context) -> Iterator[timedelta]:
    """How long until a plan is given up, or taken though its master might have."""
    for scaling in context.state.plan_executions.values():
        yield scaling.started_at + context.config.plan_timeout - context.now
    for plan in context.observed.plans:
        if plan.is_manual and plan.phase is PlanPhase.PENDING:
            yield plan.created_at + PLAN_CLAIM_DELAY - context.now
