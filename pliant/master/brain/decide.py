"""Decides the next action of the master: applies the rules in order and detects the end of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pliant.master.brain import formatting
from pliant.master.brain.context import TYPES_REQUIRED_FOR_COMPLETION, WORKER, DecisionContext, RuleResult, parse_slot
from pliant.master.brain.failures import abandon_unrecoverable_slots, find_empty_slots
from pliant.master.brain.observe import state_with_snapshot
from pliant.master.brain.rules.initial_sizing import (
    create_initial_members,
    request_missing_members,
    size_servers_by_usage,
    size_workers_by_usage,
)
from pliant.master.brain.rules.parameter_servers import remove_replaced_servers, replace_overloaded_servers
from pliant.master.brain.rules.relaunch import relaunch_failed_members
from pliant.master.brain.rules.slow_members import (
    replace_hung_members,
    replace_slowest_straggler,
    state_with_worker_speeds,
)
from pliant.master.brain.rules.unschedulable import cancel_pending_growth, reduce_pending_member_resources
from pliant.master.brain.rules.worker_scaling import tune_worker_count
from pliant.master.brain.state import BrainState
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import JobCompletion, JobSnapshot, MemberSlot, ScaleAction


def apply_user_scale_down(context: DecisionContext) -> BrainState:
    """Drop empty slots of the highest ranks if a user requested fewer members."""
    empty = find_empty_slots(context)
    dropped: set[MemberSlot] = set()
    for name, role in context.job.roles.items():
        if role.user_requested_size is not None:
            slots = [slot for slot in context.required_slots if slot.type == name]
            surplus = max(len(slots) - role.user_requested_size, 0)
            dropped |= set([slot for slot in reversed(slots) if slot in empty][:surplus])
    return context.state_without_slots(dropped) if dropped else context.state


def detect_job_completion(context: DecisionContext) -> JobCompletion | None:
    for text, reason in context.state.abandoned_slots.items():
        if context.is_critical_slot(parse_slot(text)):
            return JobCompletion(has_succeeded=False, reason=reason)
    slots = [slot for slot in context.required_slots if slot.type in TYPES_REQUIRED_FOR_COMPLETION]
    succeeded = [slot for slot in slots if str(slot) in context.state.succeeded_slots]
    if slots and len(succeeded) == len(slots):
        names = [f"{slot.type}-{context.state.newest_ids[str(slot)]}" for slot in succeeded]
        return JobCompletion(has_succeeded=True, reason=f"{formatting.format_names(names)} finished")
    critical = [slot for slot in slots if context.is_critical_slot(slot)]
    if context.snapshot.are_shards_done and critical and all(slot in succeeded for slot in critical):
        return JobCompletion(has_succeeded=True, reason="all shards are done and all critical members have finished")
    reasons = [reason for text, reason in context.state.abandoned_slots.items() if parse_slot(text).type == WORKER]
    count = sum(slot.type == WORKER for slot in context.required_slots)
    if not reasons or count >= max(context.role_spec(WORKER).min_size, 1):
        return None
    return JobCompletion(has_succeeded=False, reason=reasons[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    """As in the table of docs/master.md."""
    evaluate: Callable[[DecisionContext], RuleResult | None]
    """Return an action, or only a new state, if the rule applies."""


RULES: Final = (
    Rule(name="create", evaluate=create_initial_members),
    Rule(name="relaunch", evaluate=relaunch_failed_members),
    Rule(name="request missing members", evaluate=request_missing_members),
    Rule(name="hang", evaluate=replace_hung_members),
    Rule(name="cancel growth", evaluate=cancel_pending_growth),
    Rule(name="shrink", evaluate=reduce_pending_member_resources),
    Rule(name="replaced parameter server", evaluate=remove_replaced_servers),
    Rule(name="size workers by usage", evaluate=size_workers_by_usage),
    Rule(name="size parameter servers by usage", evaluate=size_servers_by_usage),
    Rule(name="overloaded parameter server", evaluate=replace_overloaded_servers),
    Rule(name="straggler", evaluate=replace_slowest_straggler),
    Rule(name="scale workers", evaluate=tune_worker_count),
)
"""In order of urgency: initial members, missing members, unschedulable members, improvements."""


def observe_without_deciding(snapshot: JobSnapshot, state: BrainState, timing: BrainTiming | None = None) -> BrainState:
    """Return the state after a snapshot, without a decision."""
    return state_with_snapshot(DecisionContext(snapshot, state, timing or BrainTiming()))


def decide_next_action(
    snapshot: JobSnapshot, state: BrainState, timing: BrainTiming | None = None
) -> tuple[ScaleAction | JobCompletion | None, BrainState]:
    """Return the next action, if any, and the state to keep once it is carried out."""
    context = DecisionContext(snapshot, state, timing or BrainTiming())
    context = context.with_state(state_with_snapshot(context))
    if snapshot.job.is_suspended:
        return None, context.state
    context = context.with_state(apply_user_scale_down(context))
    context = context.with_state(abandon_unrecoverable_slots(context))
    if (completion := detect_job_completion(context)) is not None:
        return completion, context.state
    context = context.with_state(state_with_worker_speeds(context))
    for rule in RULES:
        result = rule.evaluate(context)
        if result is not None:
            action, state = result
            if action is not None:
                return action, state
            context = context.with_state(state)
    return None, context.state
