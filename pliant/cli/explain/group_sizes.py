"""Explains the sizes of groups: who requested which size, and what the autoscaler recommends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from pliant.engine.plans.membership import job_in_effect
from pliant.model.job import Job, ReplicaGroup
from pliant.model.state import EngineState, GroupState, SizeRequester

REQUESTER_NAMES = {
    SizeRequester.AUTOSCALER: "autoscaler",
    SizeRequester.MASTER: "master",
    SizeRequester.MANUAL_PLAN: "plan",
    SizeRequester.SPEC: "spec",
    SizeRequester.SCALE: "scale",
}
_REQUESTER_PHRASES = {
    SizeRequester.AUTOSCALER: "the autoscaler",
    SizeRequester.MASTER: "the job's master",
    SizeRequester.MANUAL_PLAN: "a manual scale plan",
    SizeRequester.SPEC: "the spec",
    SizeRequester.SCALE: "the scale subresource",
}


def explain_group_sizes(job: Job, state: EngineState, format_ago: Callable[[datetime], str]) -> Iterator[str]:
    """Yield an explanation of each size that differs from the spec or was requested more than once."""
    for group in job_in_effect(job, state).groups:
        group_state = state.group(group.name)
        requests = group_state.size_requests.items()
        is_plain = len(requests) < 2 and all(
            requester is not SizeRequester.AUTOSCALER and request.size == group.size for requester, request in requests
        )
        if not is_plain and group_state.latest_requester is not None:
            yield _explain_size(group, group_state, group_state.latest_requester, format_ago)
        if text := recommendation_text(group, group_state):
            yield f"{group.name}: {text}."


def _explain_size(
    group: ReplicaGroup, group_state: GroupState, requester: SizeRequester, format_ago: Callable[[datetime], str]
) -> str:
    request = group_state.size_requests[requester]
    message = f" ({request.message})" if request.message else ""
    latest = f"{_REQUESTER_PHRASES[requester]} requested {request.size} {format_ago(request.at)}{message}"
    earlier = [
        f"{_REQUESTER_PHRASES[other]} requested {other_request.size}"
        for other, other_request in group_state.size_requests.items()
        if other is not requester
    ]
    before = f"; before that {' and '.join(earlier)}" if earlier else ""
    bounds = f"; bounds {limits}" if (limits := size_bounds_text(group)) else ""
    return f"{group.name} has size {group.size}: {latest}{before}{bounds}."


def size_bounds_text(group: ReplicaGroup) -> str:
    """Return the bounds of an elastic group: `1–4`, `2–`; empty if it has none."""
    is_bounded = group.is_elastic and (group.min_size > 0 or group.max_size is not None)
    return f"{group.min_size}–{'' if group.max_size is None else group.max_size}" if is_bounded else ""


def recommendation_text(group: ReplicaGroup, group_state: GroupState) -> str:
    """Describe the recommendation of the autoscaler, or why the size is fixed; empty if there is neither."""
    # A fixed size is worth mentioning only if the group is elastic or another size was requested.
    if group.fixed_size_reason and (group.is_elastic or group_state.rejected_size is not None):
        return f"its size is fixed: {group.fixed_size_reason}"
    advice = group_state.advice
    if advice is None:
        return ""
    size = group.size if group_state.applied_size is None else group_state.applied_size
    recommended = "this size" if advice.size == size else str(advice.size)
    return f"the autoscaler recommends {recommended}: {advice.message} ({advice.reason})"
