"""Plans of users that the job's master executes itself: whether the job has what they ask for."""

from __future__ import annotations

from datetime import datetime

from pliant.engine.context import Context
from pliant.engine.plans.member_list import VACATED_RANK_STATES
from pliant.engine.plans.pod_requests import MemberIndex
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.scale_plans import PlanPhase, PlanPodRequest, ScalePlan

_CHIEF = "chief"


def is_executed_by_master(context: Context, plan: ScalePlan) -> bool:
    master = context.job.master
    return plan.is_manual and plan.is_claimed and master is not None and master.claims_manual_plans


def claimed_plan_phase(context: Context, plan: ScalePlan) -> tuple[PlanPhase, str]:
    """Return the phase of a plan that the master executes: it does not report when it is done."""
    if _is_fulfilled(context, plan):
        return PlanPhase.SUCCEEDED, "executed by the job's master"
    if context.now >= claimed_plan_deadline(context, plan):
        return PlanPhase.FAILED, f"the job's master has not executed the plan within {context.config.plan_timeout}"
    return PlanPhase.SCALING, "waiting for the job's master to execute the plan"


def claimed_plan_deadline(context: Context, plan: ScalePlan) -> datetime:
    return max(plan.created_at, context.job.created_at) + context.config.plan_timeout


def _is_fulfilled(context: Context, plan: ScalePlan) -> bool:
    return (
        all(
            request.size is None or request.size in _possible_sizes(context, name)
            for name, request in plan.group_requests.items()
        )
        and all(_find_members(context, pod) for pod in plan.create_pods)
        and not any(_find_members(context, pod) for pod in (*plan.remove_pods, *plan.migrate_pods))
    )


def _possible_sizes(context: Context, group_name: str) -> set[int]:
    """Return the size of a group; masters may count the chief as a worker."""
    size = len(_list_members(context, group_name))
    return {size, size + len(_list_members(context, _CHIEF))} if group_name == "worker" else {size}


def _find_members(context: Context, request: PlanPodRequest) -> list[Replica]:
    return MemberIndex(_list_members(context, request.group)).find_requested(request)


def _list_members(context: Context, group_name: str) -> list[Replica]:
    gone = (ReplicaState.ABSENT, *VACATED_RANK_STATES)
    return [each for each in context.replicas.all if each.rank.group.name == group_name and each.state not in gone]
