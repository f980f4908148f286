"""Members that no machine takes: growth is given up, everybody else is made smaller."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import WORKER, DecisionContext, RuleResult
from pliant.master.brain.rules.initial_sizing import resources_by_usage
from pliant.master.brain.rules.relaunch import state_with_requested_pods
from pliant.master.brain.rules.worker_scaling import may_choose_worker_count
from pliant.master.brain.state import MemberSlot
from pliant.master.model import (
    JobMember,
    MemberKey,
    MemberPodRequest,
    MemberStatus,
    PodResources,
    ReplicaSizing,
    ScaleAction,
    SizingStage,
)


def cancel_pending_growth(context: DecisionContext) -> RuleResult | None:
    """Do without the workers that have waited for long, if others run and the number is ours to choose."""
    waiting = [node for node in context.members_of_type(WORKER, MemberStatus.PENDING) if node.rank > 0]
    running = len(context.running_members(WORKER))
    over = [node for node in waiting if context.has_elapsed(node.created_at, context.timing.growth_patience)]
    if not over or not running or not may_choose_worker_count(context) or running < context.role_spec(WORKER).min_size:
        return None
    leaving = tuple(node.key for node in waiting)
    because = next((f": {node.reason}" for node in over if node.reason), "")
    step = ScaleAction(
        reason=f"no machine took {formatting.format_names(leaving)} within {context.timing.growth_patience:g} s"
        f"{because}; "
        f"going on with {formatting.format_count(running, WORKER)}",
        stage=context.state.stage,
        sizing_by_type={WORKER: ReplicaSizing(replicas=running, resources=context.resources_for(WORKER))},
        remove_members=leaving,
    )
    return step, replace(
        context.state_without_slots(MemberSlot(WORKER, node.rank) for node in waiting),
        worker_cap=running,
        worker_cap_until=context.now + timedelta(seconds=context.timing.hold_off),
    )


def shrink_pending_members(context: DecisionContext) -> RuleResult | None:
    """Less for everybody who has waited for too long, as far as the author left it open.

    What nobody has measured yet is only a guess, and soon given up; so is what others were seen not to need.
    """
    small: dict[MemberKey, PodResources] = {}
    for node in context.member_by_slot.values():
        shape = _smaller_resources_by_usage(context, node)
        is_guess = shape is not None or context.state.stage is not SizingStage.RUNNING
        patience = context.timing.growth_patience if is_guess else context.timing.pending_timeout
        if node.status is MemberStatus.PENDING and context.has_elapsed(node.created_at, patience):
            shape = shape or halved_resources(context, node)
            if shape is not None:
                small[node.key] = shape
    nodes = [node for node in context.member_by_slot.values() if node.key in small]
    if not nodes:
        return None
    keys = context.allocate_keys(node.key.type for node in nodes)
    pods = tuple(
        MemberPodRequest(key=key, rank=node.rank, resources=small[node.key])
        for key, node in zip(keys, nodes, strict=True)
    )
    leaving = tuple(node.key for node in nodes)
    because = next((f": {node.reason.rstrip('.')}" for node in nodes if node.reason), "")
    step = ScaleAction(
        reason=(
            f"no machine took {formatting.format_names(leaving)}{because}; "
            f"trying with {formatting.format_resources(pods[0].resources)}"
        ),
        stage=context.state.stage,
        create_pods=pods,
        remove_members=leaving,
    )
    memory = state_with_requested_pods(context, pods)
    shapes = {**memory.resources_by_type, **{pod.key.type: pod.resources for pod in pods}}
    return step, replace(
        memory, resources_by_type=shapes, removed_members=(*memory.removed_members, *map(str, leaving))
    )


def _smaller_resources_by_usage(context: DecisionContext, member: JobMember) -> PodResources | None:
    """What members of its type were seen to need, if that is less than it asks for."""
    had, seen = member.resources, resources_by_usage(context, member.key.type)
    if member.key.type not in context.state.observations.peak_usage or had.cpu is None or had.memory is None:
        return None
    cpu, memory = seen.cpu or had.cpu, seen.memory or had.memory
    is_less = cpu <= had.cpu and memory <= had.memory and (cpu, memory) != (had.cpu, had.memory)
    return replace(seen, cpu=cpu, memory=memory) if is_less else None


def halved_resources(context: DecisionContext, member: JobMember) -> PodResources | None:
    """Half of what a member asks for, the author's own figures kept; None if there is nothing to take away."""
    type_, had = member.key.type, member.resources
    if not context.may_tune(type_):
        return None
    said = context.role_spec(type_).resources
    cpu = had.cpu if said.cpu is not None or had.cpu is None else max(limits.MIN_POD_RESOURCES.cpu or 0.0, had.cpu / 2)
    memory = had.memory
    if said.memory is None and memory is not None:
        half = max(limits.MIN_POD_RESOURCES.memory or 0, memory // 2)
        memory = half if half > context.state.oom_memory.get(type_, 0) else memory
    shape = limits.round_resources(cpu, memory, had.extended_resources)
    return shape if (shape.cpu, shape.memory) != (had.cpu, had.memory) else None
