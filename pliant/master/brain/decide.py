"""What people ask for while the job runs: the operator sees to it, and the master takes it as it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pliant.master.brain import formatting
from pliant.master.brain.context import COMPLETING_TYPES, WORKER, DecisionContext, RuleResult, parse_slot
from pliant.master.brain.failures import abandon_unrecoverable_slots, find_empty_slots
from pliant.master.brain.observe import state_with_snapshot
from pliant.master.brain.rules.creation import create_initial_members, request_missing_members
from pliant.master.brain.rules.hangs import replace_hung_members
from pliant.master.brain.rules.initial_sizing import size_servers_by_usage, size_workers_by_usage
from pliant.master.brain.rules.parameter_servers import remove_replaced_servers, replace_overloaded_servers
from pliant.master.brain.rules.relaunch import relaunch_failed_members
from pliant.master.brain.rules.stragglers import replace_slowest_straggler, state_with_worker_speeds
from pliant.master.brain.rules.unschedulable import cancel_pending_growth, shrink_pending_members
from pliant.master.brain.rules.worker_scaling import scale_workers
from pliant.master.brain.state import BrainState, MemberSlot
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import JobCompletion, JobSnapshot, ScaleAction


def apply_user_scale_down(context: DecisionContext) -> BrainState:
    """The memory without places that are empty because a person wants fewer members: the highest ranks went."""
    numbers = {
        name: role.user_requested_size
        for name, role in context.job.roles.items()
        if role.user_requested_size is not None
    }
    if not numbers:
        return context.state
    empty = find_empty_slots(context)
    gone: set[MemberSlot] = set()
    for name, number in numbers.items():
        places = [place for place in context.required_slots if place.type == name]
        surplus = max(len(places) - number, 0)
        gone |= set([place for place in reversed(places) if place in empty][:surplus])
    return context.state_without_slots(gone) if gone else context.state


def detect_job_completion(context: DecisionContext) -> JobCompletion | None:
    """How the job ended, if it did."""
    for text, reason in context.state.abandoned_slots.items():
        place = parse_slot(text)
        if context.is_critical_slot(place):
            return JobCompletion(has_succeeded=False, reason=reason)
    places = [place for place in context.required_slots if place.type in COMPLETING_TYPES]
    well = [place for place in places if str(place) in context.state.succeeded_slots]
    if places and len(well) == len(places):
        names = [f"{place.type}-{context.state.newest_ids[str(place)]}" for place in well]
        return JobCompletion(has_succeeded=True, reason=f"{formatting.format_names(names)} finished")
    critical = [place for place in places if context.is_critical_slot(place)]
    if context.snapshot.are_shards_done and critical and all(place in well for place in critical):
        return JobCompletion(has_succeeded=True, reason="all work is done, and nobody who matters is still at it")
    return _detect_too_few_workers(context)


def _detect_too_few_workers(context: DecisionContext) -> JobCompletion | None:
    """Whether so many workers are beyond recovery that fewer are left than the job needs."""
    lost = {text: reason for text, reason in context.state.abandoned_slots.items() if parse_slot(text).type == WORKER}
    left = sum(place.type == WORKER for place in context.required_slots)
    least = max(context.role_spec(WORKER).min_size, 1)
    if not lost or left >= least:
        return None
    return JobCompletion(has_succeeded=False, reason=next(iter(lost.values())))


DECISION_RULES: Final[tuple[Callable[[DecisionContext], RuleResult | None], ...]] = (
    create_initial_members,
    relaunch_failed_members,
    request_missing_members,
    replace_hung_members,
    cancel_pending_growth,
    shrink_pending_members,
    remove_replaced_servers,
    size_workers_by_usage,
    size_servers_by_usage,
    replace_overloaded_servers,
    replace_slowest_straggler,
    scale_workers,
)
"""In this order: who is needed at all, who is missing, what was asked for, what cannot be had, what is better."""


def observe_snapshot(snapshot: JobSnapshot, state: BrainState, timing: BrainTiming | None = None) -> BrainState:
    """What to remember of a picture while nothing may be decided."""
    return state_with_snapshot(DecisionContext(snapshot, state, timing or BrainTiming()))


def decide_next_action(
    snapshot: JobSnapshot, state: BrainState, timing: BrainTiming | None = None
) -> tuple[ScaleAction | JobCompletion | None, BrainState]:
    """What to do now, if anything, and what to remember if it is done."""
    case = DecisionContext(snapshot, state, timing or BrainTiming())
    case = case.with_state(state_with_snapshot(case))
    if snapshot.job.is_suspended:
        return None, case.state
    case = case.with_state(apply_user_scale_down(case))
    case = case.with_state(abandon_unrecoverable_slots(case))
    if (end := detect_job_completion(case)) is not None:
        return end, case.state
    case = case.with_state(state_with_worker_speeds(case))
    for remedy in DECISION_RULES:
        move = remedy(case)
        if move is not None:
            step, state = move
            if step is not None:
                return step, state
            case = case.with_state(state)
    return None, case.state
