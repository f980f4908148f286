"""The first plan: everybody the author asked for, and a small guess where he left it open."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import DecisionContext, RuleResult, parse_slot
from pliant.master.model import MasterRoleSpec, PodResources, ReplicaSizing, ScaleAction, SizingStage

DEFAULT_RESOURCES = PodResources(cpu=1.0, memory=formatting.GIB)
"""What the first member of a type gets when nobody has said: it is measured soon enough."""


def create_initial_members(context: DecisionContext) -> RuleResult | None:
    """Everybody, as long as nobody was ever there."""
    if context.state.stage is not SizingStage.CREATE or context.state.newest_ids or not context.job.roles:
        return None
    resumes = context.state.resume_sizes
    sizes = {
        name: role.user_requested_size or resumes.get(name) or role.replicas or max(role.min_size, 1)
        for name, role in context.job.roles.items()
        if not resumes or resumes.get(name)
    }
    shares = sum(sizes.values())
    kept = {**context.state.resources_by_type, **(context.state.latest_resources if resumes else {})}
    shapes = {name: kept.get(name) or _initial_resources(context, context.role_spec(name), shares) for name in sizes}
    wanted = {name: ReplicaSizing(replicas=number, resources=shapes[name]) for name, number in sorted(sizes.items())}
    told = ", ".join(
        f"{formatting.format_count(each.replicas, name)} with {formatting.format_resources(each.resources)}"
        for name, each in wanted.items()
    )
    begins = "goes on" if resumes else "begins"
    step = ScaleAction(reason=f"the job {begins}: {told}", stage=SizingStage.CREATE, sizing_by_type=wanted)
    return step, replace(
        context.state, resources_by_type={**context.state.resources_by_type, **shapes}, resume_sizes={}
    )


def _initial_resources(context: DecisionContext, role: MasterRoleSpec, member_count: int) -> PodResources:
    """What the author gave, and for the rest a guess that leaves as much for each of the others."""
    said = role.resources
    if not context.may_tune(role.type):
        return said
    room = limits.remaining_resources(context)
    cpu = min(DEFAULT_RESOURCES.cpu or 0.0, (room.cpu or 0.0) / member_count)
    memory = min(DEFAULT_RESOURCES.memory or 0, (room.memory or 0) // member_count)
    guess = limits.round_resources(cpu, memory, said.extended_resources)
    return replace(
        guess,
        cpu=guess.cpu if said.cpu is None else said.cpu,
        memory=guess.memory if said.memory is None else said.memory,
    )


def unmet_sizes(context: DecisionContext) -> dict[str, int]:
    """How many members of each type there are to be, where fewer are known."""
    known = [parse_slot(text).type for text in context.state.newest_ids]
    numbers = {
        name: role.operator_requested_size for name, role in context.job.roles.items() if role.operator_requested_size
    }
    return {name: number for name, number in numbers.items() if known.count(name) < number}


def request_missing_members(context: DecisionContext) -> RuleResult | None:
    """As many as the operator was asked for, if they have not been seen for long."""
    short = unmet_sizes(context)
    if not short or context.state.stage is SizingStage.CREATE:
        return None
    if not context.has_elapsed(context.state.observations.members_missing_since, context.timing.appear):
        return None
    told = ", ".join(formatting.format_count(number, name) for name, number in sorted(short.items()))
    wanted = {
        name: ReplicaSizing(replicas=number, resources=context.resources_for(name))
        for name, number in sorted(short.items())
    }
    return ScaleAction(
        reason=f"there are to be {told}", stage=context.state.stage, sizing_by_type=wanted
    ), context.state
