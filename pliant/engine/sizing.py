"""The size of each group: the latest size request wins, within the bounds of the group."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.membership import membership_of
from pliant.engine.removal import skipped_after_resize
from pliant.model.job import Job, ReplicaGroup, ResizeMode
from pliant.model.messages import AUTOSCALING_DISABLED, BOUNDS_EDITED, Message, MessageReason, message
from pliant.model.observed import ScaleRecommendation
from pliant.model.state import EngineState, GroupState, JobPhase, SizeAdvice, SizeRequest, SizeRequester

RESIZED_REASON, RESIZE_REJECTED_REASON = "Resized", "ResizeRejected"


def with_size_requests(
    job: Job, recommendations: Mapping[str, ScaleRecommendation], state: EngineState, now: datetime
) -> EngineState:
    """Record the current size requests; a new or changed request is dated `now`."""
    groups = {
        group.name: _with_group_requests(group, recommendations.get(group.name), state.group(group.name), now)
        for group in job.groups
    }
    return replace(state, groups={**state.groups, **groups})


def resize_groups(context: Context) -> Transition | None:
    """Apply the wanted sizes; the outcomes of removed replicas are dropped and do not count as failures."""
    wanted = {group.name: wanted_size(group, context.state.group(group.name)) for group in context.spec.groups}
    groups = [group for group in context.spec.groups if membership_of(group).is_engine_managed]
    changed = [group for group in groups if context.state.group(group.name).applied_size != wanted[group.name]]
    is_suspended = context.state.phase is JobPhase.SUSPENDED  # all replicas start with the new sizes when it resumes
    resizable = [group for group in changed if group.resize_mode is not ResizeMode.FIXED or is_suspended]
    if not resizable:
        return _reject_resize(context, changed, wanted)
    before = {group.name: context.state.group(group.name) for group in resizable}
    persisted = context.before or context.state
    changes = tuple(
        _resize_message(name, group_state, persisted.group(name), wanted[name]) for name, group_state in before.items()
    )
    resized = Message(MessageReason.GROUPS_RESIZED, {}, changes)
    after = {group.name: _with_size(context, group, wanted[group.name]) for group in resizable}
    state = replace(context.state, groups={**context.state.groups, **after})
    if any(group.resize_mode is not ResizeMode.JOIN for group in resizable):
        resized = resized if is_suspended else Message(MessageReason.GROUPS_RESIZED, {"restarts": 1}, changes)
        state = _restart_all(context.job, state, resized)
    return make_transition(state, context.now, RESIZED_REASON, resized, is_warning=False)


def wanted_size(group: ReplicaGroup, group_state: GroupState) -> int:
    """Return the latest requested size, limited to the bounds of the group."""
    latest = group_state.latest_requester
    size = group.size if latest is None else group_state.size_requests[latest].size
    return max(group.min_size, size if group.max_size is None else min(size, group.max_size))


def is_superseded(recommendation: ScaleRecommendation, requests: Mapping[SizeRequester, SizeRequest]) -> bool:
    """Return whether a user or master requested a size after the state that the recommendation is based on."""
    times = (request.at for source, request in requests.items() if source is not SizeRequester.AUTOSCALER)
    return recommendation.observed_at is not None and any(at > recommendation.observed_at for at in times)


def _resize_message(name: str, group_state: GroupState, persisted: GroupState, size: int) -> Message:
    latest = group_state.latest_requester
    parameters: dict[str, str | int | None] = {"group": name, "before": group_state.applied_size or 0, "after": size}
    had_autoscaler_size = persisted.latest_requester is SizeRequester.AUTOSCALER
    if latest is SizeRequester.AUTOSCALER:
        parameters |= {"requestedBy": str(latest), "message": group_state.size_requests[latest].message}
    elif had_autoscaler_size and SizeRequester.AUTOSCALER not in group_state.size_requests:
        parameters["requestedBy"] = AUTOSCALING_DISABLED
    else:
        parameters["requestedBy"] = BOUNDS_EDITED if latest is None else str(latest)
    return message(MessageReason.GROUP_RESIZED, **parameters)


def _reject_resize(
    context: Context, fixed_groups: list[ReplicaGroup], wanted_sizes: Mapping[str, int]
) -> Transition | None:
    """Record and report a size that a group of fixed size rejects; each size is reported once."""
    groups: dict[str, GroupState] = {}
    rejections = []
    for group in fixed_groups:
        group_state, size = context.state.group(group.name), wanted_sizes[group.name]
        if group_state.rejected_size != size:
            groups[group.name] = replace(group_state, rejected_size=size)
            rejections.append(
                message(
                    MessageReason.GROUP_SIZE_FIXED,
                    group=group.name,
                    size=group_state.applied_size or 0,
                    rejected=size,
                    cause=group.fixed_size_reason,
                )
            )
    if not groups:
        return None
    state = replace(context.state, groups={**context.state.groups, **groups})
    rejected = Message(MessageReason.RESIZE_REJECTED, {}, tuple(rejections))
    return make_transition(state, context.now, RESIZE_REJECTED_REASON, rejected)


def _with_group_requests(
    group: ReplicaGroup, recommendation: ScaleRecommendation | None, group_state: GroupState, now: datetime
) -> GroupState:
    previous = group_state.size_requests
    requests = {
        source: _keep_or_replace_request(previous.get(source), size, now)
        for source, size in group.requested_sizes.items()
    }
    # Requests of plans stay in force after the plans are deleted.
    plan_sources = (SizeRequester.MASTER, SizeRequester.MANUAL_PLAN)
    requests |= {source: request for source, request in previous.items() if source in plan_sources}
    if group.is_autoscaled and (request := _autoscaler_request(recommendation, group_state, requests)) is not None:
        requests[SizeRequester.AUTOSCALER] = request
    throughputs = recommendation.throughput_by_size if recommendation is not None else None
    after = replace(
        group_state,
        size_requests=requests,
        advice=_latest_advice(recommendation, group_state) if group.is_autoscaled else None,
        throughput_by_size=dict(throughputs) if throughputs else group_state.throughput_by_size,
        template_hash=group_state.template_hash or group.template_hash,
    )
    size = wanted_size(group, after)
    if group_state.applied_size is None:
        return replace(after, applied_size=size)  # the initial size is not a resize
    return replace(after, rejected_size=None) if size == group_state.applied_size else after


def _autoscaler_request(
    recommendation: ScaleRecommendation | None,
    group_state: GroupState,
    other_requests: Mapping[SizeRequester, SizeRequest],
) -> SizeRequest | None:
    """Return the new request of the autoscaler, or its last one: it has none while the operator starts."""
    before = group_state.size_requests.get(SizeRequester.AUTOSCALER)
    if recommendation is None or not recommendation.should_apply or is_superseded(recommendation, other_requests):
        return before
    advice = recommendation.advice
    is_old = advice.size == group_state.applied_size or (before is not None and advice.at <= before.at)
    return before if is_old else SizeRequest(size=advice.size, at=advice.at, message=advice.message)


def _latest_advice(recommendation: ScaleRecommendation | None, group_state: GroupState) -> SizeAdvice | None:
    """Return the recommended advice, or the previous one if they differ only in their message."""
    before = group_state.advice
    if recommendation is None:
        return before
    advice = recommendation.advice
    is_same = before is not None and (before.size, before.reason) == (advice.size, advice.reason)
    return before if is_same else advice


def _keep_or_replace_request(previous: SizeRequest | None, size: int, now: datetime) -> SizeRequest:
    return previous if previous is not None and previous.size == size else SizeRequest(size=size, at=now)


def _with_size(context: Context, group: ReplicaGroup, size: int) -> GroupState:
    group_state = context.state.group(group.name)
    # Replicas that all start again get consecutive indexes.
    skipped: tuple[int, ...] = ()
    if group.resize_mode is ResizeMode.JOIN and context.state.phase is not JobPhase.SUSPENDED:
        replicas = context.replicas.in_group(context.job.group(group.name) or group)
        skipped = skipped_after_resize(replicas, group_state.skipped_indexes, size, context.now)
    kept = set(dataclasses.replace(group, size=size, skipped_indexes=skipped).indexes)
    return replace(
        group_state,
        applied_size=size,
        skipped_indexes=skipped,
        rejected_size=None,
        index_min_attempts={index: least for index, least in group_state.index_min_attempts.items() if index in kept},
        replica_outcomes={index: outcome for index, outcome in group_state.replica_outcomes.items() if index in kept},
    )


def _restart_all(job: Job, state: EngineState, message: Message) -> EngineState:
    """Restart all replicas without charging a restart and without backoff: a resize is not a failure."""
    groups = {group.name: membership_of(group).restart(state.group(group.name)) for group in job.groups}
    phase = JobPhase.RESTARTING if state.phase is JobPhase.RUNNING else state.phase
    return replace(state, phase=phase, message=message, groups={**state.groups, **groups})
