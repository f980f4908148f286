"""Creates the initial members with default resources, and later sizes members by measured usage."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import PS, WORKER, DecisionContext, RuleResult, parse_slot
from pliant.master.brain.rules.parameter_servers import add_replacement_servers
from pliant.master.brain.rules.worker_scaling import (
    can_resize_workers_now,
    may_choose_worker_count,
    resize_workers_by_speed,
)
from pliant.master.model import MasterRoleSpec, PodResources, ReplicaSizing, ScaleAction, SizingStage

DEFAULT_CPU, DEFAULT_MEMORY = 1.0, formatting.GIB
CPU_HEADROOM_FACTOR = 1.25
MEMORY_HEADROOM_FACTOR = 1.5
MEMORY_PRESSURE_RATIO = 0.8


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
    available = limits.remaining_job_resources(context)
    cpu = min(DEFAULT_CPU, (available.cpu or 0.0) / member_count)
    memory = min(DEFAULT_MEMORY, (available.memory or 0) // member_count)
    default = limits.round_up_resources(cpu, memory, spec.extended_resources)
    return replace(
        default,
        cpu=default.cpu if spec.cpu is None else spec.cpu,
        memory=default.memory if spec.memory is None else spec.memory,
    )


def unmet_requested_sizes(context: DecisionContext) -> dict[str, int]:
    """Return the requested sizes of the types of which fewer members are known."""
    types = [parse_slot(text).type for text in context.state.newest_ids]
    sizes = {name: role.operator_applied_size for name, role in context.job.roles.items()}
    return {name: size for name, size in sizes.items() if size and types.count(name) < size}


def request_missing_members(context: DecisionContext) -> RuleResult | None:
    """Request members again that the operator was asked for and that have not appeared."""
    state, sizes = context.state, sorted(unmet_requested_sizes(context).items())
    if not sizes or state.stage is SizingStage.CREATE:
        return None
    if not context.has_elapsed(state.observations.members_missing_since, context.timing.pod_appear_timeout):
        return None
    expected = ", ".join(formatting.format_count(size, name) for name, size in sizes)
    sizing = {name: ReplicaSizing(replicas=size, resources=context.resources_for(name)) for name, size in sizes}
    return ScaleAction(
        reason=f"members are missing: expected {expected}", stage=state.stage, sizing_by_type=sizing
    ), state


def size_workers_by_usage(context: DecisionContext) -> RuleResult | None:
    """Set the resources of new workers by usage, and their number if the master may choose it."""
    if context.state.stage is not SizingStage.WORKER_INITIAL or not context.running_members(WORKER):
        return None
    observations = context.state.observations
    usage = observations.peak_usage.get(WORKER)
    if usage is None or usage.memory is None:
        return None
    may_choose = may_choose_worker_count(context)
    has_settled = context.has_elapsed(observations.workers_unchanged_since, context.timing.settle_time)
    if not (can_resize_workers_now(context) if may_choose else has_settled):
        return None
    resources = resources_by_usage(context, WORKER)
    action, state = (resize_workers_by_speed(context, resources) if may_choose else None) or (None, context.state)
    resources_by_type = {**state.resources_by_type, WORKER: resources}
    state = replace(state, stage=SizingStage.PS_INITIAL, resources_by_type=resources_by_type)
    if action is not None:
        used = formatting.format_resources(limits.round_up_resources(usage.cpu, usage.memory, {}))
        given = formatting.format_resources(resources)
        action = replace(action, reason=f"{action.reason}; a worker uses up to {used}, so new workers get {given}")
    return action, state


def size_servers_by_usage(context: DecisionContext) -> RuleResult | None:
    """Set the resources of new parameter servers by usage, and replace servers with too little memory."""
    if context.state.stage is not SizingStage.PS_INITIAL:
        return None
    next_state = replace(context.state, stage=SizingStage.RUNNING)
    usage = context.state.observations.peak_usage.get(PS)
    since = context.state.observations.stage_since
    if usage is None:
        return (None, next_state) if context.has_elapsed(since, context.timing.usage_report_timeout) else None
    if not context.has_elapsed(since, context.timing.settle_time):
        return None
    resources, used = resources_by_usage(context, PS), usage.memory or 0
    small = [
        server
        for server in context.running_members(PS)
        if server.resources.memory and used > MEMORY_PRESSURE_RATIO * server.resources.memory
    ]
    if not small or not context.may_tune(PS):
        return None, replace(next_state, resources_by_type={**next_state.resources_by_type, PS: resources})
    result = add_replacement_servers(context, small, resources, "it uses most of its memory")
    return None if result is None else (result[0], replace(result[1], stage=SizingStage.RUNNING))


def resources_by_usage(context: DecisionContext, member_type: str) -> PodResources:
    """Return the resources of the spec; for missing ones, peak usage with headroom, but more than at an OOM kill."""
    spec, old = context.role_spec(member_type).resources, context.resources_for(member_type)
    usage = context.state.observations.peak_usage.get(member_type)
    if not context.may_tune(member_type) or usage is None:
        return old
    measured = limits.round_up_resources(
        None if usage.cpu is None else usage.cpu * CPU_HEADROOM_FACTOR,
        None if usage.memory is None else round(usage.memory * MEMORY_HEADROOM_FACTOR),
        spec.extended_resources,
    )
    memory = old.memory if measured.memory is None else measured.memory
    if memory is not None and memory <= context.state.oom_memory.get(member_type, 0):
        memory = old.memory
    return PodResources(
        cpu=spec.cpu if spec.cpu is not None else (measured.cpu or old.cpu),
        memory=spec.memory if spec.memory is not None and member_type not in context.state.oom_memory else memory,
        extended_resources=spec.extended_resources,
    )
