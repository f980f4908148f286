"""Handles members that cannot be scheduled: cancels additional workers, and reduces the resources of the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import WORKER, DecisionContext, RuleResult
from pliant.master.brain.rules.initial_sizing import resources_by_usage
from pliant.master.brain.rules.worker_scaling import may_choose_worker_count
from pliant.master.model import JobMember, MemberStatus, PodResources, ReplicaSizing, ScaleAction, SizingStage


def cancel_pending_growth(context: DecisionContext) -> RuleResult | None:
    """Remove pending workers after the growth timeout, if others run and the master may choose their number."""
    timing = context.timing
    pending = [member for member in context.newest_members_of_type(WORKER, MemberStatus.PENDING) if member.rank > 0]
    running = len(context.running_members(WORKER))
    overdue = [member for member in pending if context.has_elapsed(member.created_at, timing.growth_timeout)]
    is_enough = running and running >= context.role_spec(WORKER).min_size
    if not overdue or not is_enough or not may_choose_worker_count(context):
        return None
    removed = tuple(member.key for member in pending)
    cause = next((f": {member.reason}" for member in overdue if member.reason), "")
    action = ScaleAction(
        reason=f"{formatting.format_names(removed)} not scheduled within {timing.growth_timeout:g} s{cause}; "
        f"continuing with {formatting.format_count(running, WORKER)}",
        stage=context.state.stage,
        sizing_by_type={WORKER: ReplicaSizing(replicas=running, resources=context.resources_for(WORKER))},
        remove_members=removed,
    )
    state = context.state_without_slots(member.slot for member in pending)
    until = context.now + timedelta(seconds=timing.growth_backoff)
    return action, replace(state, worker_cap=running, worker_cap_until=until)


def reduce_pending_member_resources(context: DecisionContext) -> RuleResult | None:
    """Request smaller pods in place of members that are pending for too long, as far as the spec allows.

    Resources that were not measured, or that exceed the measured usage, are reduced sooner.
    """
    shrunk: list[tuple[JobMember, PodResources]] = []
    for member in context.newest_member_by_slot.values():
        smaller = _smaller_resources_by_usage(context, member)
        is_default = smaller is not None or context.state.stage is not SizingStage.RUNNING
        timeout = context.timing.growth_timeout if is_default else context.timing.pending_timeout
        if member.status is MemberStatus.PENDING and context.has_elapsed(member.created_at, timeout):
            smaller = smaller or halved_resources(context, member)
            if smaller is not None:
                shrunk.append((member, smaller))
    if not shrunk:
        return None
    pods = context.build_pod_requests((member.slot, resources) for member, resources in shrunk)
    removed = tuple(member.key for member, _ in shrunk)
    cause = next((f": {member.reason.rstrip('.')}" for member, _ in shrunk if member.reason), "")
    action = ScaleAction(
        reason=f"{formatting.format_names(removed)} not scheduled{cause}; "
        f"retrying with {formatting.format_resources(pods[0].resources)}",
        stage=context.state.stage,
        create_pods=pods,
        remove_members=removed,
    )
    state = context.state_with_requested_pods(pods)
    resources = {**state.resources_by_type, **{pod.key.type: pod.resources for pod in pods}}
    removed_members = (*state.removed_members, *map(str, removed))
    return action, replace(state, resources_by_type=resources, removed_members=removed_members)


def _smaller_resources_by_usage(context: DecisionContext, member: JobMember) -> PodResources | None:
    """Return the resources by measured usage if they are less than those of the member."""
    old, measured = member.resources, resources_by_usage(context, member.key.type)
    if member.key.type not in context.state.observations.peak_usage or old.cpu is None or old.memory is None:
        return None
    cpu, memory = measured.cpu or old.cpu, measured.memory or old.memory
    is_less = cpu <= old.cpu and memory <= old.memory and (cpu, memory) != (old.cpu, old.memory)
    return replace(measured, cpu=cpu, memory=memory) if is_less else None


def halved_resources(context: DecisionContext, member: JobMember) -> PodResources | None:
    type_, old = member.key.type, member.resources
    if not context.may_tune(type_):
        return None
    spec, cpu, memory = context.role_spec(type_).resources, old.cpu, old.memory
    if spec.cpu is None and cpu is not None:
        cpu = max(limits.MIN_POD_CPU, cpu / 2)
    if spec.memory is None and memory is not None:
        half = max(limits.MIN_POD_MEMORY, memory // 2)
        memory = half if half > context.state.oom_memory.get(type_, 0) else memory
    resources = limits.round_up_resources(cpu, memory, old.extended_resources)
    return resources if (resources.cpu, resources.memory) != (old.cpu, old.memory) else None
