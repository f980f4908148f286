"""Decides whether a failed member is replaced, whether this counts as a restart, and with how much memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import CHIEF, PARAMETER_SERVER_STRATEGY, WORKER, DecisionContext
from pliant.master.brain.state import BrainState
from pliant.master.model import JobMember, MemberKey, MemberSlot, MemberStatus, PodResources

MAX_OOM_INCREASE_BYTES = 8 * formatting.GIB
EARLY_EXIT_THRESHOLD = timedelta(seconds=60)
MAX_RELAUNCH_BACKOFF_SECONDS = 300.0


class MemberExitCause(StrEnum):
    """Why a member ended, as a verb phrase for messages."""

    OUT_OF_MEMORY = "ran out of memory"
    KILLED = "was killed"
    LOST = "was lost"
    PROGRAM_FAILED = "failed"
    HARDWARE = "reported a hardware fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementDecision:
    should_replace: bool
    reason: str
    resources: PodResources
    counts_as_restart: bool = False
    backoff_seconds: float = 0.0


def classify_exit(member: JobMember) -> MemberExitCause:
    if member.reason == "OOMKilled" or member.exit_code == 247:
        return MemberExitCause.OUT_OF_MEMORY
    if member.status is MemberStatus.LOST or member.exit_code is None:
        return MemberExitCause.LOST
    if member.exit_code in (137, 143):
        return MemberExitCause.KILLED
    return MemberExitCause.HARDWARE if member.exit_code in (201, 202, 14) else MemberExitCause.PROGRAM_FAILED


def find_empty_slots(context: DecisionContext) -> dict[MemberSlot, JobMember | None]:
    """Return slots without a pending or running member, with the last member; None if its pod no longer exists."""
    empty: dict[MemberSlot, JobMember | None] = {}
    for slot in context.required_slots:
        if str(slot) in context.state.succeeded_slots:
            continue
        member = context.newest_member_by_slot.get(slot)
        newest = MemberKey(slot.type, context.state.newest_ids[str(slot)])
        if member is None or member.key.id < newest.id:
            if _is_member_missing(context, newest):
                empty[slot] = None
        elif member.status in (MemberStatus.FAILED, MemberStatus.LOST):
            empty[slot] = member
    return empty


def abandon_unrecoverable_slots(context: DecisionContext) -> BrainState:
    """Mark the slots as abandoned whose members are not replaced."""
    abandoned = dict(context.state.abandoned_slots)
    for slot, (_, decision) in decide_replacements(context).items():
        if not decision.should_replace:
            abandoned[str(slot)] = decision.reason
    if len(abandoned) == len(context.state.abandoned_slots):
        return context.state
    workers = sum(slot.type == WORKER and str(slot) not in abandoned for slot in context.required_slots)
    # New workers would fail in the same way, so none are added for a while.
    until = context.now + timedelta(seconds=context.timing.growth_backoff)
    return replace(context.state, abandoned_slots=abandoned, worker_cap=max(workers, 1), worker_cap_until=until)


def decide_replacements(context: DecisionContext) -> dict[MemberSlot, tuple[JobMember | None, ReplacementDecision]]:
    """Decide for each empty slot; all replacements together stay within the memory limit of the job."""
    empty = find_empty_slots(context)
    available = limits.remaining_job_resources(context).memory or 0
    share = available // max(len(empty), 1) // limits.MEMORY_STEP_BYTES * limits.MEMORY_STEP_BYTES
    reserved = {slot: _reserved_memory(context, slot, member, share) for slot, member in empty.items()}
    spare = max(available - sum(reserved.values()), 0)
    decisions: dict[MemberSlot, tuple[JobMember | None, ReplacementDecision]] = {}
    for slot, member in empty.items():
        decision = _decide_replacement(context, slot, member, reserved[slot] + spare)
        if decision.should_replace:
            spare -= max((decision.resources.memory or 0) - reserved[slot], 0)
        decisions[slot] = (member, decision)
    return decisions


def _reserved_memory(context: DecisionContext, slot: MemberSlot, member: JobMember | None, memory_share: int) -> int:
    """Return the memory of the last member of a slot; if that is unknown, at most the share of the slot."""
    if member is not None and member.resources.memory:
        return member.resources.memory
    return min(context.resources_for(slot.type).memory or 0, memory_share)


def _decide_replacement(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, max_memory: int
) -> ReplacementDecision:
    resources, backoff = _replacement_resources(context, slot, member, max_memory), _relaunch_backoff(context, slot)
    if member is None:
        lost = MemberExitCause.LOST.value
        return ReplacementDecision(should_replace=True, reason=lost, resources=resources, backoff_seconds=backoff)
    cause = classify_exit(member)
    reason = _describe_exit(member, cause)
    if cause is MemberExitCause.OUT_OF_MEMORY:
        return _decide_after_oom(context, slot, member, max_memory)
    if cause in (MemberExitCause.LOST, MemberExitCause.KILLED):
        backoff = backoff if has_exited_early(member) else 0.0
        return ReplacementDecision(should_replace=True, reason=reason, resources=resources, backoff_seconds=backoff)
    has_reported_failure = cause is MemberExitCause.PROGRAM_FAILED and member.exit_code in (1, 134)
    if has_reported_failure and _is_failure_final(context, slot):
        return ReplacementDecision(should_replace=False, reason=f"{member.key} {reason}", resources=resources)
    return _decide_by_restart_limit(context, slot, member, reason, resources)


def _decide_after_oom(
    context: DecisionContext, slot: MemberSlot, member: JobMember, max_memory: int
) -> ReplacementDecision:
    resources = _replacement_resources(context, slot, member, max_memory)
    old = member.usable_memory or resources.memory
    if old is None or not context.may_tune(slot.type):
        return _decide_by_restart_limit(context, slot, member, MemberExitCause.OUT_OF_MEMORY.value, resources)
    new = min(
        max(2 * old, resources.memory or 0),
        old + MAX_OOM_INCREASE_BYTES,
        limits.MAX_OOM_RAISED_MEMORY_BYTES,
        max_memory,
    )
    new = old + (new - old) // limits.MEMORY_STEP_BYTES * limits.MEMORY_STEP_BYTES
    if new <= old:
        reason = f"{member.key} ran out of memory with {formatting.format_memory(old)}, and the limits allow no more"
        return ReplacementDecision(should_replace=False, reason=reason, resources=resources)
    reason = f"ran out of memory: from {formatting.format_memory(old)} to {formatting.format_memory(new)}"
    return ReplacementDecision(should_replace=True, reason=reason, resources=replace(resources, memory=new))


def _decide_by_restart_limit(
    context: DecisionContext, slot: MemberSlot, member: JobMember, description: str, resources: PodResources
) -> ReplacementDecision:
    limit, used = context.role_spec(slot.type).restart_limit, context.state.restart_counts.get(str(slot), 0)
    if used >= limit:
        restarts = f" after {formatting.format_count(used, 'restart')}" if used else ""
        reason = f"{member.key} {description}{restarts}"
        return ReplacementDecision(should_replace=False, reason=reason, resources=resources)
    reason = f"{description} (restart {used + 1} of {limit})"
    return ReplacementDecision(should_replace=True, reason=reason, resources=resources, counts_as_restart=True)


def _is_failure_final(context: DecisionContext, slot: MemberSlot) -> bool:
    """Return whether a failure reported by the program is not retried: parameter servers keep the training state."""
    uses_servers = context.job.strategy == PARAMETER_SERVER_STRATEGY and slot.type in (WORKER, CHIEF)
    return uses_servers and not context.role_spec(slot.type).restarts_always


def _is_member_missing(context: DecisionContext, key: MemberKey) -> bool:
    """Return whether a member has disappeared, or has not appeared within the timeout."""
    observations = context.state.observations
    if key in observations.observed_members:
        return True
    started_at = observations.started_at or context.now
    since = max(started_at, observations.requested_at.get(key, started_at))
    return context.has_elapsed(since, context.timing.pod_appear_timeout)


def _relaunch_backoff(context: DecisionContext, slot: MemberSlot) -> float:
    early_exits = context.state.early_exit_counts.get(str(slot), 0)
    return min(2.0 ** min(early_exits, 10), MAX_RELAUNCH_BACKOFF_SECONDS) if early_exits else 0.0


def newest_requested_at(context: DecisionContext, slot: MemberSlot) -> datetime | None:
    """Return when the newest member of a slot was requested; None if an earlier master requested it."""
    newest = MemberKey(slot.type, context.state.newest_ids[str(slot)])
    return context.state.observations.requested_at.get(newest)


def has_exited_early(member: JobMember) -> bool:
    started_at = member.started_at or member.created_at
    return member.ended_at is not None and member.ended_at - started_at < EARLY_EXIT_THRESHOLD


def _replacement_resources(
    context: DecisionContext, slot: MemberSlot, member: JobMember | None, max_memory: int
) -> PodResources:
    """Return the current resources of the type, with at least the memory of the last member."""
    resources = context.resources_for(slot.type)
    if resources.memory is None:
        return resources
    if member is None or member.resources.memory is None:
        return replace(resources, memory=min(resources.memory, max(max_memory, limits.MIN_POD_MEMORY)))
    return replace(resources, memory=max(min(resources.memory, max_memory), member.resources.memory))


def _describe_exit(member: JobMember, cause: MemberExitCause) -> str:
    code = "" if member.exit_code is None else f" with exit code {member.exit_code}"
    reason = f" ({member.reason})" if member.reason and member.reason != "Error" else ""
    return f"{cause.value}{code}{reason}"
