"""Why groups have the sizes they have: who asked for what, and what the autoscaler thinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from pliant.engine.sizing import with_applied_sizes
from pliant.model.job import Job, ReplicaGroup
from pliant.model.state import GroupState, SizeRequester

REQUESTER_NAMES = {
    SizeRequester.AUTOSCALER: "autoscaler",
    SizeRequester.MASTER: "master",
    SizeRequester.MANUAL_PLAN: "plan",
    SizeRequester.SPEC: "replicas",
    SizeRequester.SCALE: "scale",
}
"""Who asks for sizes, in one word."""
_REQUESTER_PHRASES = {
    SizeRequester.AUTOSCALER: "the autoscaler",
    SizeRequester.MASTER: "the job's master",
    SizeRequester.MANUAL_PLAN: "a plan written by hand",
    SizeRequester.SPEC: "an edit of replicas",
    SizeRequester.SCALE: "scaling",
}


def explain_group_sizes(job: Job, format_ago: Callable[[datetime], str]) -> Iterator[str]:
    """Who asked for which size, where more than one size was ever asked for or bounds hold it back."""
    if job.state is None:
        return
    for group in with_applied_sizes(job, job.state).groups:
        memory = job.state.group(group.name)
        asked = memory.size_requests.items()
        is_plain = len(asked) < 2 and all(
            who is not SizeRequester.AUTOSCALER and each.size == group.size for who, each in asked
        )
        if not is_plain and memory.latest_requester is not None:
            yield _explain_size(group, memory, memory.latest_requester, format_ago)
        if thought := autoscaler_opinion(group, memory):
            yield f"{group.name}: {thought}."


def _explain_size(
    group: ReplicaGroup, group_state: GroupState, requester: SizeRequester, format_ago: Callable[[datetime], str]
) -> str:
    request = group_state.size_requests[requester]
    why = f" ({request.message})" if request.message else ""
    asked = f"{_REQUESTER_PHRASES[requester]} asked for {request.size} {format_ago(request.at)}{why}"
    others = [
        f"{_REQUESTER_PHRASES[who]} for {each.size}"
        for who, each in group_state.size_requests.items()
        if who is not requester
    ]
    bounds = (
        f", within {within}{'' if group.max_size is not None else 'any'}" if (within := size_bounds_text(group)) else ""
    )
    before = f"; before that {' and '.join(others)}" if others else ""
    return f"{group.name} has size {group.size}: {asked}{before}{bounds}."


def size_bounds_text(group: ReplicaGroup) -> str:
    """Between which sizes a group may move: `1–4`, `2–`; empty if nothing bounds it."""
    is_bounded = group.is_elastic and (group.min_size > 0 or group.max_size is not None)
    return f"{group.min_size}–{'' if group.max_size is None else group.max_size}" if is_bounded else ""


def autoscaler_opinion(group: ReplicaGroup, group_state: GroupState) -> str:
    """What the autoscaler thinks of a size, or why nobody can change it; empty if there is nothing to say."""
    # That the servers of every job are as many as they were is no news, until somebody wants it otherwise.
    if group.fixed_size_reason and (group.is_elastic or group_state.rejected_size is not None):
        return f"its size stays: {group.fixed_size_reason}"
    advice = group_state.advice
    if advice is None:
        return ""
    size = group.size if group_state.applied_size is None else group_state.applied_size
    right = "that right" if advice.size == size else f"{advice.size} right"
    return f"the autoscaler thinks {right}: {advice.message} ({advice.reason})"
