"""What a member's end means: whether its place is filled again, at whose cost, and with how much memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import CHIEF, PARAMETER_SERVER_STRATEGY, WORKER, DecisionContext
from pliant.master.brain.state import BrainState, MemberSlot
from pliant.master.model import JobMember, MemberKey, MemberStatus, PodResources

MAX_OOM_INCREASE_BYTES = 8 * formatting.GIB
EARLY_EXIT_THRESHOLD = timedelta(seconds=60)
"""Who lived shorter than this and was lost fell quickly."""
MAX_RELAUNCH_BACKOFF_SECONDS = 300.0


class MemberExitCause(StrEnum):
    """Why a member ended, as far as the next one at its place is concerned."""

    OUT_OF_MEMORY = "ran out of memory"
    KILLED = "was killed"
    LOST = "was lost"
    PROGRAM_FAILED = "failed"
    HARDWARE = "met broken hardware"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementDecision:
    """What becomes of a place."""

    should_replace: bool
    reason: str
    resources: PodResources
    counts_as_restart: bool = False
    backoff_seconds: float = 0.0
    """Seconds after its end until the next one may start."""


def classify_exit(member: JobMember) -> MemberExitCause:
    """Why a member that did not succeed has ended."""
    if member.reason == "OOMKilled" or member.exit_code == 247:
        return MemberExitCause.OUT_OF_MEMORY
    if member.status is MemberStatus.LOST or member.exit_code is None:
        return MemberExitCause.LOST
    if member.exit_code in (137, 143):
        return MemberExitCause.KILLED
    return MemberExitCause.HARDWARE if member.exit_code in (201, 202, 14) else MemberExitCause.PROGRAM_FAILED


def find_empty_slots(context: DecisionContext) -> dict[MemberSlot, JobMember | None]:
    """Every place without anybody at work or on the way to it; None for whoever is not to be seen any more."""
    found: dict[MemberSlot, JobMember | None] = {}
    for place in context.required_slots:
        if str(place) in context.state.succeeded_slots:
            continue
        node = context.member_by_slot.get(place)
        newest = MemberKey(place.type, context.state.newest_ids[str(place)])
        if node is None or node.key.id < newest.id:
            if _is_member_missing(context, newest):
                found[place] = None
        elif node.status in (MemberStatus.FAILED, MemberStatus.LOST):
            found[place] = node
    return found


def abandon_unrecoverable_slots(context: DecisionContext) -> BrainState:
    """The memory with every place given up that is beyond recovery."""
    dropped = dict(context.state.abandoned_slots)
    for place, (_, verdict) in decide_replacements(context).items():
        if not verdict.should_replace:
            dropped[str(place)] = verdict.reason
    if len(dropped) == len(context.state.abandoned_slots):
        return context.state
    left = sum(place.type == WORKER and str(place) not in dropped for place in context.required_slots)
    # Newcomers would meet with the same: the others go on alone for a while.
    until = context.now + timedelta(seconds=context.timing.hold_off)
    return replace(context.state, abandoned_slots=dropped, worker_cap=max(left, 1), worker_cap_until=until)


def decide_replacements(context: DecisionContext) -> dict[MemberSlot, tuple[JobMember | None, ReplacementDecision]]:
    """Who fell at each place, and what becomes of it; all together stay within the limits of the job."""
    found = find_empty_slots(context)
    room = limits.remaining_resources(context).memory or 0
    share = room // max(len(found), 1) // limits.MEMORY_GRANULARITY * limits.MEMORY_GRANULARITY
    held = {place: _reserved_memory(context, place, node, share) for place, node in found.items()}
    spare = max(room - sum(held.values()), 0)
    answers: dict[MemberSlot, tuple[JobMember | None, ReplacementDecision]] = {}
    for place, node in found.items():
        verdict = _decide_replacement(context, place, node, held[place] + spare)
        if verdict.should_replace:
            spare -= max((verdict.resources.memory or 0) - held[place], 0)
        answers[place] = (node, verdict)
    return answers


def _reserved_memory(context: DecisionContext, slot: MemberSlot, member: JobMember | None, memory_share: int) -> int:
    """What the last one at a place had; of one that cannot be seen any more not more than its share is sure."""
    if member is not None and member.resources.memory:
        return member.resources.memory
    return min(context.resources_for(slot.type).memory or 0, memory_share)


def _decide_replacement(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, max_memory: int
) -> ReplacementDecision:
    """Whether a place is filled again, and how; with so much memory at most."""
    shape = _replacement_resources(context, slot, member, max_memory)
    if member is None:
        return ReplacementDecision(
            should_replace=True, reason="was lost", resources=shape, backoff_seconds=_relaunch_backoff(context, slot)
        )
    match classify_exit(member):
        case MemberExitCause.OUT_OF_MEMORY:
            return _decide_after_oom(context, slot, member, max_memory)
        case MemberExitCause.LOST | MemberExitCause.KILLED as cause:
            wait = _relaunch_backoff(context, slot) if has_exited_early(member) else 0.0
            return ReplacementDecision(
                should_replace=True, reason=_describe_exit(member, cause), resources=shape, backoff_seconds=wait
            )
        case MemberExitCause.PROGRAM_FAILED as cause if member.exit_code in (1, 134) and _is_failure_final(
            context, slot
        ):
            return ReplacementDecision(
                should_replace=False, reason=f"{member.key} {_describe_exit(member, cause)}", resources=shape
            )
        case cause:
            return _decide_by_restart_limit(context, slot, member, _describe_exit(member, cause), shape)


def _decide_after_oom(
    context: DecisionContext, slot: MemberSlot, member: JobMember, max_memory: int
) -> ReplacementDecision:
    shape = _replacement_resources(context, slot, member, max_memory)
    had = member.resources.memory or shape.memory
    if had is None or not context.may_tune(slot.type):
        return _decide_by_restart_limit(context, slot, member, "ran out of memory", shape)
    more = min(max(2 * had, shape.memory or 0), had + MAX_OOM_INCREASE_BYTES, limits.MAX_POD_MEMORY, max_memory)
    more = had + (more - had) // limits.MEMORY_GRANULARITY * limits.MEMORY_GRANULARITY
    if more <= had:
        return ReplacementDecision(
            should_replace=False,
            reason=f"{member.key} ran out of memory with {formatting.format_memory(had)}, and more may not be given",
            resources=shape,
        )
    told = f"ran out of memory: from {formatting.format_memory(had)} to {formatting.format_memory(more)}"
    return ReplacementDecision(should_replace=True, reason=told, resources=replace(shape, memory=more))


def _decide_by_restart_limit(
    context: DecisionContext, slot: MemberSlot, member: JobMember, description: str, resources: PodResources
) -> ReplacementDecision:
    limit, spent = context.role_spec(slot.type).restart_limit, context.state.restart_counts.get(str(slot), 0)
    if spent >= limit:
        tried = f", after {formatting.format_count(spent, 'restart')}" if spent else ""
        return ReplacementDecision(
            should_replace=False, reason=f"{member.key} {description}{tried}", resources=resources
        )
    return ReplacementDecision(
        should_replace=True,
        reason=f"{description} (restart {spent + 1} of {limit})",
        resources=resources,
        counts_as_restart=True,
    )


def _is_failure_final(context: DecisionContext, slot: MemberSlot) -> bool:
    """Whether the program's own word of failure stands: where parameter servers hold what was learned."""
    served = context.job.strategy == PARAMETER_SERVER_STRATEGY and slot.type in (WORKER, CHIEF)
    return served and not context.role_spec(slot.type).restarts_always


def _is_member_missing(context: DecisionContext, key: MemberKey) -> bool:
    """Whether a member is gone that was seen, or has not come though there was time enough."""
    impressions = context.state.observations
    if key in impressions.observed:
        return True
    woke = impressions.started_at or context.now
    since = max(woke, impressions.requested_at.get(key, woke))
    return context.has_elapsed(since, context.timing.appear)


def _relaunch_backoff(context: DecisionContext, slot: MemberSlot) -> float:
    """Seconds between two who fall quickly at one place: longer each time."""
    falls = context.state.early_exit_counts.get(str(slot), 0)
    return min(2.0 ** min(falls, 10), MAX_RELAUNCH_BACKOFF_SECONDS) if falls else 0.0


def newest_requested_at(context: DecisionContext, slot: MemberSlot) -> datetime | None:
    """When the newest at a place was asked for; None if that was another master's doing."""
    newest = MemberKey(slot.type, context.state.newest_ids[str(slot)])
    return context.state.observations.requested_at.get(newest)


def has_exited_early(member: JobMember) -> bool:
    """Whether a member ended soon after it began."""
    return (
        member.ended_at is not None
        and member.ended_at - (member.started_at or member.created_at) < EARLY_EXIT_THRESHOLD
    )


def _replacement_resources(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, max_memory: int
) -> PodResources:
    """What the next one at a place asks for: as its type does now, and not less than the last one here did."""
    shape = context.resources_for(slot.type)
    if shape.memory is None:
        return shape
    if member is None or member.resources.memory is None:
        return replace(shape, memory=min(shape.memory, max(max_memory, limits.MIN_POD_RESOURCES.memory or 0)))
    return replace(shape, memory=max(min(shape.memory, max_memory), member.resources.memory))


def _describe_exit(member: JobMember, cause: MemberExitCause) -> str:
    code = "" if member.exit_code is None else f" with exit code {member.exit_code}"
    because = f" ({member.reason})" if member.reason and member.reason != "Error" else ""
    return f"{cause.value}{code}{because}"
