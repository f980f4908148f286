"""How many members a group is to have: the latest request wins, within the group's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as altered
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.model.job import Job, MembershipSource, ReplicaGroup, ResizeMode
from pliant.model.observed import ScaleRecommendation
from pliant.model.state import EngineState, GroupState, JobPhase, SizeAdvice, SizeRequest, SizeRequester

RESIZED_REASON = "Resized"
"""What a resize is called in a job's story."""


def with_size_requests(
    job: Job, recommendations: Mapping[str, ScaleRecommendation], state: EngineState, now: datetime
) -> EngineState:
    """The memory with the sizes that are asked for at present; one asked for anew is asked for now."""
    groups = {
        group.name: _with_group_requests(group, recommendations.get(group.name), state.group(group.name), now)
        for group in job.groups
    }
    return replace(state, groups={**state.groups, **groups})


def with_applied_sizes(job: Job, state: EngineState) -> Job:
    """The job with its groups at the sizes that are acted upon."""
    sizes = {group.name: state.group(group.name).applied_size for group in job.groups}
    if all(sizes[group.name] in (None, group.size) for group in job.groups):
        return job
    groups = [(group, sizes[group.name]) for group in job.groups]
    return altered(job, groups=tuple(group if size is None else altered(group, size=size) for group, size in groups))


def resize_groups(context: Context) -> Transition | None:
    """Take on the sizes that are wanted by now; whoever has to leave is forgotten, not counted as failed."""
    wanted = {group.name: wanted_size(group, context.state.group(group.name)) for group in context.requested_job.groups}
    changed = [
        group
        for group in context.requested_job.groups
        if group.membership_source is MembershipSource.ENGINE
        and context.state.group(group.name).applied_size != wanted[group.name]
    ]
    is_resting = context.state.phase is JobPhase.SUSPENDED  # whoever comes after a rest is told everything anew
    moving = [group for group in changed if group.resize_mode is not ResizeMode.FIXED or is_resting]
    if not moving:
        return _reject_resize(context, changed, wanted)
    memories = {group.name: context.state.group(group.name) for group in moving}
    said = ", ".join(f"{name} from {memory.applied_size} to {wanted[name]}" for name, memory in memories.items())
    why = " and ".join(
        sorted({_describe_requester(memory, _previous_state(context, name)) for name, memory in memories.items()})
    )
    message = f"resizing {said} ({why})"
    groups = {name: _with_size(memory, wanted[name]) for name, memory in memories.items()}
    state = replace(context.state, groups={**context.state.groups, **groups})
    if any(group.resize_mode is not ResizeMode.JOIN for group in moving):
        message = message if is_resting else f"{message}; all members start again, to be told of it"
        state = _restart_all(context.job, state, message)
    return make_transition(state, context.now, RESIZED_REASON, message, is_warning=False)


def wanted_size(group: ReplicaGroup, group_state: GroupState) -> int:
    """The size asked for last, kept within the bounds."""
    latest = group_state.latest_requester
    size = group.size if latest is None else group_state.size_requests[latest].size
    return max(group.min_size, size if group.max_size is None else min(size, group.max_size))


def is_superseded(recommendation: ScaleRecommendation, requests: Mapping[SizeRequester, SizeRequest]) -> bool:
    """Whether somebody has asked for a size that was not known when this one was wanted."""
    asked = (each.at for who, each in requests.items() if who is not SizeRequester.AUTOSCALER)
    return recommendation.observed_at is not None and any(at > recommendation.observed_at for at in asked)


_REQUESTER_MESSAGES = {
    SizeRequester.MASTER: "the master asks for it",
    SizeRequester.MANUAL_PLAN: "a plan asks for it",
    SizeRequester.SPEC: "replicas was edited",
    SizeRequester.SCALE: "scaled",
    None: "bounds were edited",
}


def _describe_requester(group_state: GroupState, previous: GroupState) -> str:
    latest = group_state.latest_requester
    if latest is SizeRequester.AUTOSCALER:
        return f"autoscaler: {group_state.size_requests[latest].message}"
    if (
        previous.latest_requester is SizeRequester.AUTOSCALER
        and SizeRequester.AUTOSCALER not in group_state.size_requests
    ):
        return "the autoscaler was kept out"
    return _REQUESTER_MESSAGES[latest]


def _previous_state(context: Context, group_name: str) -> GroupState:
    """What was remembered of a group when the last pass ended."""
    return context.job.state.group(group_name) if context.job.state else GroupState()


def _reject_resize(
    context: Context, fixed_groups: list[ReplicaGroup], wanted_sizes: Mapping[str, int]
) -> Transition | None:
    """Tell once of a size that cannot be taken on."""
    memories = {group.name: context.state.group(group.name) for group in fixed_groups}
    news = [group for group in fixed_groups if memories[group.name].rejected_size != wanted_sizes[group.name]]
    if not news:
        return None
    said = [
        f"{each.name} stays at {memories[each.name].applied_size}, not {wanted_sizes[each.name]}: "
        f"{each.fixed_size_reason}"
        for each in news
    ]
    groups = {each.name: replace(memories[each.name], rejected_size=wanted_sizes[each.name]) for each in news}
    return make_transition(
        replace(context.state, groups={**context.state.groups, **groups}), context.now, "SizeHeld", "; ".join(said)
    )


def _with_group_requests(
    group: ReplicaGroup, recommendation: ScaleRecommendation | None, group_state: GroupState, now: datetime
) -> GroupState:
    requests = {
        who: _dated_request(group_state.size_requests.get(who), size, now)
        for who, size in group.requested_sizes.items()
    }
    # What plans have asked for stands although they are gone.
    requests |= {
        who: each
        for who, each in group_state.size_requests.items()
        if who in (SizeRequester.MASTER, SizeRequester.MANUAL_PLAN)
    }
    if group.is_autoscaled and (order := _autoscaler_request(recommendation, group_state, requests)) is not None:
        requests[SizeRequester.AUTOSCALER] = order
    advice = _latest_advice(recommendation, group_state) if group.is_autoscaled else None
    speeds = (
        dict(recommendation.throughput_by_size)
        if recommendation is not None and recommendation.throughput_by_size
        else group_state.throughput_by_size
    )
    after = replace(
        group_state,
        size_requests=requests,
        advice=advice,
        throughput_by_size=speeds,
        template_hash=group_state.template_hash or group.template_hash,
    )
    size = wanted_size(group, after)
    if group_state.applied_size is None:
        return replace(
            after, applied_size=size
        )  # nobody has to be told of the first size: it is simply what the job is
    return replace(after, rejected_size=None) if size == group_state.applied_size else after


def _autoscaler_request(
    recommendation: ScaleRecommendation | None,
    group_state: GroupState,
    other_requests: Mapping[SizeRequester, SizeRequest],
) -> SizeRequest | None:
    """The autoscaler's request: what it asks for now, or asked for last; it is silent while an operator starts."""
    before = group_state.size_requests.get(SizeRequester.AUTOSCALER)
    if recommendation is None or not recommendation.should_apply or is_superseded(recommendation, other_requests):
        return before
    advice = recommendation.advice
    is_old = advice.size == group_state.applied_size or (before is not None and advice.at <= before.at)
    return before if is_old else SizeRequest(size=advice.size, at=advice.at, message=advice.message)


def _latest_advice(recommendation: ScaleRecommendation | None, group_state: GroupState) -> SizeAdvice | None:
    """The autoscaler's word; one that differs in nothing but its text is no news."""
    before = group_state.advice
    if recommendation is None:
        return before
    is_news = before is None or (before.size, before.reason) != (
        recommendation.advice.size,
        recommendation.advice.reason,
    )
    return recommendation.advice if is_news else before


def _dated_request(previous: SizeRequest | None, size: int, now: datetime) -> SizeRequest:
    return previous if previous is not None and previous.size == size else SizeRequest(size=size, at=now)


def _with_size(group_state: GroupState, size: int) -> GroupState:
    return replace(
        group_state,
        applied_size=size,
        rejected_size=None,
        index_min_attempts={index: floor for index, floor in group_state.index_min_attempts.items() if index < size},
        replica_outcomes={index: outcome for index, outcome in group_state.replica_outcomes.items() if index < size},
    )


def _restart_all(job: Job, state: EngineState, message: str) -> EngineState:
    """Start every member again: no failure, so nobody's budget is charged and nobody has to wait."""
    steady = [group.name for group in job.groups if group.membership_source is MembershipSource.ENGINE]
    groups = {name: _with_new_attempt(state.group(name)) for name in steady}
    phase = JobPhase.RESTARTING if state.phase is JobPhase.RUNNING else state.phase
    return replace(state, phase=phase, message=message, groups={**state.groups, **groups})


def _with_new_attempt(group_state: GroupState) -> GroupState:
    attempt = group_state.attempt + 1
    return replace(group_state, attempt=attempt, job_min_attempt=attempt, index_min_attempts={}, replica_outcomes={})
