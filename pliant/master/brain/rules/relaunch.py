"""Relaunches failed members at the same rank, all in one plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.master.brain import formatting
from pliant.master.brain.context import DecisionContext, RuleResult
from pliant.master.brain.failures import (
    EARLY_EXIT_THRESHOLD,
    MemberExitCause,
    ReplacementDecision,
    classify_exit,
    decide_replacements,
    has_exited_early,
    newest_requested_at,
)
from pliant.master.brain.state import BrainState
from pliant.master.model import JobMember, MemberSlot, ScaleAction

Replacement = tuple[MemberSlot, JobMember | None, ReplacementDecision]
"""A slot, its last member (None if its pod no longer exists), and the decision."""


def relaunch_failed_members(context: DecisionContext) -> RuleResult | None:
    """Replace all failed members whose backoff is over."""
    all_replacements = ((slot, *decided) for slot, decided in decide_replacements(context).items())
    due = [each for each in all_replacements if each[2].should_replace and _is_relaunch_due(context, each)]
    if not due:
        return None
    pods = context.build_pod_requests((slot, decision.resources) for slot, _, decision in due)
    action = ScaleAction(reason=_relaunch_reason(due), stage=context.state.stage, create_pods=pods)
    return action, _count_restarts(context, context.state_with_requested_pods(pods), due)


def _is_relaunch_due(context: DecisionContext, replacement: Replacement) -> bool:
    slot, member, decision = replacement
    if context.snapshot.are_shards_done and not context.is_critical_slot(slot):
        return False
    # The end of a member whose pod no longer exists was not observed.
    since = newest_requested_at(context, slot) if member is None else member.ended_at or member.created_at
    return not decision.backoff_seconds or since is None or context.has_elapsed(since, decision.backoff_seconds)


def _count_restarts(context: DecisionContext, state: BrainState, replacements: list[Replacement]) -> BrainState:
    restarts, early_exits = dict(state.restart_counts), dict(state.early_exit_counts)
    resources, oom_memory = dict(state.resources_by_type), dict(state.oom_memory)
    for slot, member, decision in replacements:
        name = str(slot)
        if decision.counts_as_restart:
            restarts[name] = restarts.get(name, 0) + 1
        elif member is not None and classify_exit(member) is MemberExitCause.OUT_OF_MEMORY:
            resources[slot.type] = decision.resources
            oom_memory[slot.type] = max(oom_memory.get(slot.type, 0), member.usable_memory or 0)
        elif _was_early_exit(context, slot, member, decision):
            early_exits[name] = early_exits.get(name, 0) + 1
        else:
            early_exits.pop(name, None)
    return replace(
        state,
        restart_counts=restarts,
        early_exit_counts=early_exits,
        resources_by_type=resources,
        oom_memory=oom_memory,
    )


def _was_early_exit(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, decision: ReplacementDecision
) -> bool:
    """Return whether a member ended soon after its start; estimate it if the pod no longer exists."""
    if member is not None:
        return has_exited_early(member)
    since, threshold = newest_requested_at(context, slot), timedelta(seconds=decision.backoff_seconds)
    return since is not None and context.now - since < EARLY_EXIT_THRESHOLD + threshold


def _relaunch_reason(replacements: list[Replacement]) -> str:
    """Group members with the same reason: `worker-1, worker-2 and 28 more were killed`."""
    by_reason: dict[str, list[str]] = {}
    for slot, member, decision in replacements:
        name = str(member.key) if member is not None else f"{slot.type} of rank {slot.rank}"
        by_reason.setdefault(decision.reason, []).append(name)
    return "; ".join(f"{formatting.format_names(names)} {reason}" for reason, names in by_reason.items())
