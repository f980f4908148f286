"""Requests the initial members of a job, with default resources where the spec sets none, and missing members."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import DecisionContext, RuleResult, parse_slot
from pliant.master.model import MasterRoleSpec, PodResources, ReplicaSizing, ScaleAction, SizingStage

DEFAULT_CPU, DEFAULT_MEMORY = 1.0, formatting.GIB


def create_initial_members(context: DecisionContext) -> RuleResult | None:
    """Request all members of a new or resumed job."""
    state = context.state
    if state.stage is not SizingStage.CREATE or state.newest_ids or not context.job.roles:
        return None
    resume_sizes = state.resume_sizes
    sizes = {
        name: role.user_requested_size or resume_sizes.get(name) or role.replicas or max(role.min_size, 1)
        for name, role in context.job.roles.items()
        if not resume_sizes or resume_sizes.get(name)
    }
    total = sum(sizes.values())
    known = {**state.resources_by_type, **(state.latest_resources if resume_sizes else {})}
    resources = {name: known.get(name) or _initial_resources(context, context.role_spec(name), total) for name in sizes}
    sizing = {name: ReplicaSizing(replicas=size, resources=resources[name]) for name, size in sorted(sizes.items())}
    members = ", ".join(
        f"{formatting.format_count(each.replicas, name)} with {formatting.format_resources(each.resources)}"
        for name, each in sizing.items()
    )
    reason = f"job {'resumed' if resume_sizes else 'started'}: {members}"
    action = ScaleAction(reason=reason, stage=SizingStage.CREATE, sizing_by_type=sizing)
    return action, replace(state, resources_by_type={**state.resources_by_type, **resources}, resume_sizes={})


def _initial_resources(context: DecisionContext, role: MasterRoleSpec, member_count: int) -> PodResources:
    """Return the resources of the spec; for missing ones, a default that leaves as much for every other member."""
    spec = role.resources
    if not context.may_tune(role.type):
        return spec
    available = limits.remaining_resources(context)
    cpu = min(DEFAULT_CPU, (available.cpu or 0.0) / member_count)
    memory = min(DEFAULT_MEMORY, (available.memory or 0) // member_count)
    default = limits.round_resources(cpu, memory, spec.extended_resources)
    return replace(
        default,
        cpu=default.cpu if spec.cpu is None else spec.cpu,
        memory=default.memory if spec.memory is None else spec.memory,
    )


def unmet_sizes(context: DecisionContext) -> dict[str, int]:
    """Return the requested sizes of the types of which fewer members are known."""
    types = [parse_slot(text).type for text in context.state.newest_ids]
    sizes = {name: role.operator_requested_size for name, role in context.job.roles.items()}
    return {name: size for name, size in sizes.items() if size and types.count(name) < size}


def request_missing_members(context: DecisionContext) -> RuleResult | None:
    """Request members again that the operator was asked for and that have not appeared."""
    state, sizes = context.state, sorted(unmet_sizes(context).items())
    if not sizes or state.stage is SizingStage.CREATE:
        return None
    if not context.has_elapsed(state.observations.members_missing_since, context.timing.pod_appear_timeout):
        return None
    expected = ", ".join(formatting.format_count(size, name) for name, size in sizes)
    sizing = {name: ReplicaSizing(replicas=size, resources=context.resources_for(name)) for name, size in sizes}
    return ScaleAction(
        reason=f"members are missing: expected {expected}", stage=state.stage, sizing_by_type=sizing
    ), state
