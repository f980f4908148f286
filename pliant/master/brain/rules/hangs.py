"""Members that hang: they once spoke, and have said nothing for long."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import formatting
from pliant.master.brain.context import CHIEF, WORKER, DecisionContext, RuleResult
from pliant.master.brain.rules.relaunch import state_with_requested_pods
from pliant.master.brain.state import MemberSlot
from pliant.master.model import JobMember, MemberPodRequest, ScaleAction

NO_PROGRESS_FACTOR = 3.0
"""How many times as long a member may speak on without getting any further."""


def replace_hung_members(context: DecisionContext) -> RuleResult | None:
    """New members in place of all that hang, at the cost of a restart each; who has none left is left alone."""
    hung = [
        node
        for type_ in (WORKER, CHIEF)
        for node in context.running_members(type_)
        if is_hung(context, node) and _may_restart(context, node)
    ]
    if not hung or context.snapshot.are_shards_done:
        return None
    keys = context.allocate_keys(node.key.type for node in hung)
    pods = tuple(
        MemberPodRequest(key=key, rank=node.rank, resources=node.resources)
        for key, node in zip(keys, hung, strict=True)
    )
    leaving = tuple(node.key for node in hung)
    step = ScaleAction(
        reason=f"{formatting.format_names(leaving)} said nothing new for {context.timing.hang:g} s",
        stage=context.state.stage,
        create_pods=pods,
        remove_members=leaving,
    )
    memory = state_with_requested_pods(context, pods)
    charges = dict(memory.restart_counts)
    for node in hung:
        place = str(MemberSlot(node.key.type, node.rank))
        charges[place] = charges.get(place, 0) + 1
    return step, replace(memory, restart_counts=charges, removed_members=(*memory.removed_members, *map(str, leaving)))


def is_hung(context: DecisionContext, member: JobMember) -> bool:
    """Whether a member has stopped speaking, or speaks on and gets nowhere though there is work."""
    known = context.state.observations.progress.get(member.key)
    if known is None:
        return False
    if context.has_elapsed(max(known.heard_at, known.moved_at), context.timing.hang):
        return True
    has_work = context.snapshot.shards_left != 0 and (known.step is not None or known.samples is not None)
    return has_work and context.has_elapsed(known.moved_at, NO_PROGRESS_FACTOR * context.timing.hang)


def _may_restart(context: DecisionContext, member: JobMember) -> bool:
    place = str(MemberSlot(member.key.type, member.rank))
    return context.state.restart_counts.get(place, 0) < context.role_spec(member.key.type).restart_limit
