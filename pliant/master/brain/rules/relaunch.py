"""Everybody who fell is made anew at the same rank, all in one plan."""

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
from pliant.master.brain.state import BrainState, MemberSlot
from pliant.master.model import JobMember, MemberPodRequest, ScaleAction


def relaunch_failed_members(context: DecisionContext) -> RuleResult | None:
    """One plan for all who fell and whose wait is over."""
    due = [
        (place, node, verdict)
        for place, (node, verdict) in decide_replacements(context).items()
        if verdict.should_replace and _is_relaunch_due(context, place, node, verdict)
    ]
    if not due:
        return None
    keys = context.allocate_keys(place.type for place, _, _ in due)
    pods = tuple(
        MemberPodRequest(key=key, rank=place.rank, resources=verdict.resources)
        for key, (place, _, verdict) in zip(keys, due, strict=True)
    )
    step = ScaleAction(reason=_relaunch_reason(due), stage=context.state.stage, create_pods=pods)
    return step, _count_restarts(context, state_with_requested_pods(context, pods), due)


def state_with_requested_pods(context: DecisionContext, pods: tuple[MemberPodRequest, ...]) -> BrainState:
    """The memory with these members on their way."""
    memory = context.state
    ids = dict(memory.highest_ids)
    for pod in pods:
        ids[pod.key.type] = max(ids.get(pod.key.type, -1), pod.key.id)
    return replace(
        memory,
        highest_ids=ids,
        newest_ids={**memory.newest_ids, **{str(MemberSlot(pod.key.type, pod.rank)): pod.key.id for pod in pods}},
        observations=replace(
            memory.observations,
            requested_at={**memory.observations.requested_at, **{pod.key: context.now for pod in pods}},
        ),
    )


def _is_relaunch_due(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, decision: ReplacementDecision
) -> bool:
    if context.snapshot.are_shards_done and not context.is_critical_slot(slot):
        return False  # nothing is left for it to do
    # Nobody saw when one ended that is not to be seen any more.
    since = newest_requested_at(context, slot) if member is None else member.ended_at or member.created_at
    return (
        not decision.backoff_seconds
        or since is None
        or context.now - since >= timedelta(seconds=decision.backoff_seconds)
    )


def _count_restarts(
    context: DecisionContext,
    state: BrainState,
    replacements: list[tuple[MemberSlot, JobMember | None, ReplacementDecision]],
) -> BrainState:
    charges, falls = dict(state.restart_counts), dict(state.early_exit_counts)
    shapes, too_small = dict(state.resources_by_type), dict(state.oom_memory)
    for place, node, verdict in replacements:
        name = str(place)
        if verdict.counts_as_restart:
            charges[name] = charges.get(name, 0) + 1
        elif node is not None and classify_exit(node) is MemberExitCause.OUT_OF_MEMORY:
            shapes[place.type] = verdict.resources
            too_small[place.type] = max(too_small.get(place.type, 0), node.resources.memory or 0)
        else:
            falls[name] = falls.get(name, 0) + 1 if _was_early_exit(context, place, node, verdict) else 0
    kept = {name: number for name, number in falls.items() if number}
    return replace(
        state, restart_counts=charges, early_exit_counts=kept, resources_by_type=shapes, oom_memory=too_small
    )


def _was_early_exit(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, decision: ReplacementDecision
) -> bool:
    """Whether somebody fell soon after it began; of one that vanished, as far as anybody can tell."""
    if member is not None:
        return has_exited_early(member)
    since = newest_requested_at(context, slot)
    return since is not None and context.now - since < EARLY_EXIT_THRESHOLD + timedelta(
        seconds=decision.backoff_seconds
    )


def _relaunch_reason(replacements: list[tuple[MemberSlot, JobMember | None, ReplacementDecision]]) -> str:
    """Alike ends are told together: `worker-1, worker-2 and 28 more were killed`."""
    by_reason: dict[str, list[str]] = {}
    for place, node, verdict in replacements:
        who = str(node.key) if node is not None else f"{place.type} of rank {place.rank}"
        by_reason.setdefault(verdict.reason, []).append(who)
    return "; ".join(f"{formatting.format_names(names)} {reason}" for reason, names in by_reason.items())
