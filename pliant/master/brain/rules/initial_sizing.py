"""From guesses to what was seen: the first looks at workers and parameter servers."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import formatting, limits
from pliant.master.brain.context import PS, WORKER, DecisionContext, RuleResult
from pliant.master.brain.rules.parameter_servers import add_larger_servers
from pliant.master.brain.rules.worker_scaling import may_choose_worker_count, may_resize_workers, resize_workers
from pliant.master.model import PodResources, SizingStage

CPU_HEADROOM_FACTOR = 1.25
MEMORY_HEADROOM_FACTOR = 1.5
"""What a member gets beyond the most that one of its type was seen to use."""


def size_workers_by_usage(context: DecisionContext) -> RuleResult | None:
    """The workers' shape by what the first ones use, and more of them if the number is ours to choose."""
    if context.state.stage is not SizingStage.WORKER_INITIAL or not context.running_members(WORKER):
        return None
    known = context.state.observations.peak_usage.get(WORKER)
    if known is None or known.memory is None:
        return None
    if may_choose_worker_count(context):
        if not may_resize_workers(context):
            return None
    elif not context.has_elapsed(context.state.observations.workers_unchanged_since, context.timing.settle):
        return None
    shape = resources_by_usage(context, WORKER)
    move = resize_workers(context, shape) if may_choose_worker_count(context) else None
    step, memory = move or (None, context.state)
    memory = replace(
        memory, stage=SizingStage.PS_INITIAL, resources_by_type={**memory.resources_by_type, WORKER: shape}
    )
    if step is not None:
        used = formatting.format_resources(limits.round_resources(known.cpu, known.memory, {}))
        step = replace(
            step,
            reason=f"{step.reason}; a worker uses up to {used}, so new ones get {formatting.format_resources(shape)}",
        )
    return step, memory


def size_servers_by_usage(context: DecisionContext) -> RuleResult | None:
    """The servers' shape by what they use; who has too little is replaced by a bigger one."""
    if context.state.stage is not SizingStage.PS_INITIAL:
        return None
    done = replace(context.state, stage=SizingStage.RUNNING)
    known = context.state.observations.peak_usage.get(PS)
    since = context.state.observations.stage_since
    if known is None:
        return (None, done) if context.has_elapsed(since, context.timing.reports) else None
    if not context.has_elapsed(since, context.timing.settle):
        return None
    shape = resources_by_usage(context, PS)
    tight = [
        node
        for node in context.running_members(PS)
        if (node.resources.memory or 0) and (known.memory or 0) > 0.8 * (node.resources.memory or 0)
    ]
    if not tight or not context.may_tune(PS):
        return None, replace(done, resources_by_type={**done.resources_by_type, PS: shape})
    move = add_larger_servers(context, tight, shape, "it uses most of its memory")
    return None if move is None else (move[0], replace(move[1], stage=SizingStage.RUNNING))


def resources_by_usage(context: DecisionContext, member_type: str) -> PodResources:
    """What the author gave, and for the rest what was seen and a margin; never less than what was too little."""
    said, old = context.role_spec(member_type).resources, context.resources_for(member_type)
    known = context.state.observations.peak_usage.get(member_type)
    if not context.may_tune(member_type) or known is None:
        return old
    seen = limits.round_resources(
        None if known.cpu is None else known.cpu * CPU_HEADROOM_FACTOR,
        None if known.memory is None else round(known.memory * MEMORY_HEADROOM_FACTOR),
        said.extended_resources,
    )
    memory = old.memory if seen.memory is None else seen.memory
    if memory is not None and memory <= context.state.oom_memory.get(member_type, 0):
        memory = old.memory
    return PodResources(
        cpu=said.cpu if said.cpu is not None else (seen.cpu or old.cpu),
        memory=said.memory if said.memory is not None and member_type not in context.state.oom_memory else memory,
        extended_resources=said.extended_resources,
    )
