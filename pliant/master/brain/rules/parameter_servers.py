"""Replaces overloaded parameter servers: a larger one is added, and the old one is removed when no worker uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import CHIEF, PS, WORKER, DecisionContext, RuleResult
from pliant.master.model import JobMember, MemberStatus, PodResources, ScaleAction, SizingStage

CPU_SATURATION_RATIO = 0.9  # a parameter server that uses this fraction of its CPU is overloaded


def replace_overloaded_servers(context: DecisionContext) -> RuleResult | None:
    """Add a server with twice the CPU for each server that has used most of its CPU for a while."""
    state = context.state
    if state.stage is not SizingStage.RUNNING or not context.may_tune(PS):
        return None
    if state.ps_changed_at and not context.has_elapsed(state.ps_changed_at, context.timing.ps_change_interval):
        return None
    if any(member.key.type == PS and _has_newer_replacement(context, member) for member in context.unremoved_members):
        return None
    running = context.running_members(PS)
    overloaded = [server for server in running if is_cpu_saturated(context, server)]
    if not overloaded or len(running) < sum(slot.type == PS for slot in context.required_slots):
        return None
    old_cpu = max(server.resources.cpu or 0.0 for server in overloaded)
    max_cpu = (limits.remaining_job_resources(context).cpu or 0.0) / len(overloaded)
    new_cpu = min(2 * old_cpu, max_cpu)
    if new_cpu <= old_cpu:
        return None
    resources = replace(context.resources_for(PS), cpu=new_cpu)
    return add_replacement_servers(context, overloaded, resources, f"it uses nearly all of its {old_cpu:g} CPU")


def is_cpu_saturated(context: DecisionContext, member: JobMember) -> bool:
    """Return whether a server has used nearly all of its CPU on average over the observation window."""
    window = context.state.observations.cpu_windows.get(member.key)
    if window is None or not window.readings or not member.resources.cpu:
        return False
    is_complete = context.has_elapsed(window.started_at, context.timing.observation_window)
    return is_complete and window.total_cores / window.readings >= CPU_SATURATION_RATIO * member.resources.cpu


def add_replacement_servers(
    context: DecisionContext, members: Sequence[JobMember], resources: PodResources, reason: str
) -> RuleResult | None:
    """Add a server at the rank of each of these; the old ones stay until no worker uses them."""
    if limits.count_fitting_pods(limits.remaining_job_resources(context), resources) < len(members):
        return None
    pods = context.build_pod_requests((member.slot, resources) for member in members)
    names = formatting.format_names([member.key for member in members])
    reason = f"replacing {names} with {formatting.format_resources(resources)}: {reason}"
    action = ScaleAction(reason=reason, stage=context.state.stage, create_pods=pods)
    state = context.state_with_requested_pods(pods)
    resources_by_type = {**state.resources_by_type, PS: resources}
    return action, replace(state, ps_changed_at=context.now, resources_by_type=resources_by_type)


def remove_replaced_servers(context: DecisionContext) -> RuleResult | None:
    """Remove servers whose replacements run, once all workers have switched or the handover timeout has passed."""
    state = context.state
    old = [m.key for m in context.unremoved_members if m.key.type == PS and _has_newer_replacement(context, m)]
    replacements = [member for slot, member in context.newest_member_by_slot.items() if slot.type == PS]
    if not old or any(member.status is not MemberStatus.RUNNING for member in replacements):
        return None
    newest = max((member.started_at or member.created_at for member in replacements), default=None)
    if not have_workers_switched(context) and not context.has_elapsed(newest, context.timing.ps_handover_timeout):
        return None
    names = formatting.format_names([member.key for member in replacements])
    reason = f"{formatting.format_names(old)} handed over to {names}"
    action = ScaleAction(reason=reason, stage=state.stage, remove_members=tuple(old), ps_hosts=state.ps_hosts)
    return action, replace(state, removed_members=(*state.removed_members, *map(str, old)))


def have_workers_switched(context: DecisionContext) -> bool:
    """Return whether all workers have reported that they use the current set of servers."""
    workers = [*context.running_members(WORKER), *context.running_members(CHIEF)]
    version = context.state.ps_version
    return all(worker.heartbeat is not None and (worker.heartbeat.ps_version or 0) >= version for worker in workers)


def _has_newer_replacement(context: DecisionContext, member: JobMember) -> bool:
    ids = [other.key.id for other in context.unremoved_members if other.slot == member.slot]
    is_newest = member.key.id >= max(ids, default=member.key.id)
    return not is_newest and member.status in (MemberStatus.RUNNING, MemberStatus.PENDING)
