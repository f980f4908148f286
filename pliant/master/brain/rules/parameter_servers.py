"""Parameter servers that are too small: a bigger one takes over, and the old one leaves once nobody needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import CHIEF, PS, WORKER, DecisionContext, RuleResult
from pliant.master.brain.rules.relaunch import state_with_requested_pods
from pliant.master.brain.timing import CPU_SATURATION_RATIO
from pliant.master.model import JobMember, MemberPodRequest, MemberStatus, PodResources, ScaleAction, SizingStage


def replace_overloaded_servers(context: DecisionContext) -> RuleResult | None:
    """A server with twice the CPU for each one that has used nearly all of its own for a while."""
    if context.state.stage is not SizingStage.RUNNING or not context.may_tune(PS):
        return None
    if context.state.ps_changed_at and not context.has_elapsed(
        context.state.ps_changed_at, context.timing.server_pause
    ):
        return None
    if any(node.key.type == PS and _has_newer_replacement(context, node) for node in context.members):
        return None  # one change after the other
    hot = [node for node in context.running_members(PS) if is_cpu_saturated(context, node)]
    if not hot or len(context.running_members(PS)) < sum(place.type == PS for place in context.required_slots):
        return None
    had = max(node.resources.cpu or 0.0 for node in hot)
    shape = context.resources_for(PS)
    bigger = replace(shape, cpu=min(2 * had, _max_cpu_per_server(context, len(hot))))
    if (bigger.cpu or 0.0) <= had:
        return None
    return add_larger_servers(context, hot, bigger, f"it uses nearly all of its {had:g} CPU")


def is_cpu_saturated(context: DecisionContext, member: JobMember) -> bool:
    """Whether a server has used nearly all of its CPU during a whole look, on average."""
    meter = context.state.observations.cpu_windows.get(member.key)
    if meter is None or not meter.readings or not member.resources.cpu:
        return False
    return (
        context.has_elapsed(meter.started_at, context.timing.look)
        and meter.total_cores / meter.readings >= CPU_SATURATION_RATIO * member.resources.cpu
    )


def add_larger_servers(
    context: DecisionContext, members: Sequence[JobMember], resources: PodResources, reason: str
) -> RuleResult | None:
    """Another server beside each of these, at the same rank; who was there stays until nobody needs it."""
    if limits.count_fitting_pods(limits.remaining_resources(context), resources) < len(members):
        return None
    keys = context.allocate_keys(PS for _ in members)
    pods = tuple(
        MemberPodRequest(key=key, rank=node.rank, resources=resources) for key, node in zip(keys, members, strict=True)
    )
    step = ScaleAction(
        reason=(
            f"{formatting.format_names([node.key for node in members])} with "
            f"{formatting.format_resources(resources)} anew: {reason}"
        ),
        stage=context.state.stage,
        create_pods=pods,
    )
    memory = state_with_requested_pods(context, pods)
    return step, replace(
        memory, ps_changed_at=context.now, resources_by_type={**memory.resources_by_type, PS: resources}
    )


def remove_replaced_servers(context: DecisionContext) -> RuleResult | None:
    """Send servers away whose successors run, once every worker has turned to them or had time enough to."""
    old = [node for node in context.members if node.key.type == PS and _has_newer_replacement(context, node)]
    if not old:
        return None
    successors = [context.member_by_slot[place] for place in context.member_by_slot if place.type == PS]
    if any(node.status is not MemberStatus.RUNNING for node in successors):
        return None
    newest = max((node.started_at or node.created_at for node in successors), default=None)
    if not have_workers_switched(context) and not context.has_elapsed(newest, context.timing.handover):
        return None
    leaving = tuple(node.key for node in old)
    step = ScaleAction(
        reason=(
            f"{formatting.format_names(leaving)} handed over to "
            f"{formatting.format_names([node.key for node in successors])}"
        ),
        stage=context.state.stage,
        remove_members=leaving,
        ps_hosts=context.state.ps_hosts,
    )
    return step, replace(context.state, removed_members=(*context.state.removed_members, *map(str, leaving)))


def have_workers_switched(context: DecisionContext) -> bool:
    """Whether every worker has said that it works with the present set of servers."""
    users = [*context.running_members(WORKER), *context.running_members(CHIEF)]
    version = context.state.ps_version
    return all(node.heartbeat is not None and (node.heartbeat.ps_version or 0) >= version for node in users)


def _has_newer_replacement(context: DecisionContext, member: JobMember) -> bool:
    newest = max(
        (other.key.id for other in context.members if other.key.type == PS and other.rank == member.rank),
        default=member.key.id,
    )
    return member.key.id < newest and member.status in (MemberStatus.RUNNING, MemberStatus.PENDING)


def _max_cpu_per_server(context: DecisionContext, server_count: int) -> float:
    return (limits.remaining_resources(context).cpu or 0.0) / max(server_count, 1)
