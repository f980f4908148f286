"""Restarts: their limits, their scope and their backoff."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.membership import membership_of
from pliant.engine.restart.requests import RestartRequest, list_restart_requests
from pliant.engine.restart.start_failures import count_start_failure
from pliant.engine.status.failures import list_unstarted, set_root_cause
from pliant.engine.status.messages import failure_message
from pliant.model.job import Job, ReplicaGroup, RestartScope
from pliant.model.messages import MessageReason, message
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, GroupState, JobPhase, RestartCause

MAX_BACKOFF = timedelta(minutes=5)
BACKOFF_RESET_AFTER = timedelta(minutes=10)
"""A group without a restart for this long restarts without backoff again."""
STABLE_RUN = timedelta(seconds=10)
"""A replica that ran for this long before it was lost does not lengthen the backoff: its program can start."""
MAX_AVOIDED_NODES = 8


def restart_replicas(context: Context) -> Transition | None:
    granted: list[RestartRequest] = []
    charged: list[RestartRequest] = []
    after, job_limit = context.state, context.job.restart_limit
    for request in list_restart_requests(context):
        rank = request.replica.rank
        group_state = after.group(rank.group.name)
        if rank.attempt < group_state.min_attempt(rank.index):
            continue  # a restart of wider scope, granted just before, includes this replica
        is_within_job_limit = job_limit is None or context.state.restart_count + len(charged) < job_limit
        if request.is_exempt_from_limit or (has_restarts_left(rank.group, group_state) and is_within_job_limit):
            after = _charge_restart(context.job, after, request, context.now)
            granted.append(request)
            charged += [] if request.is_exempt_from_limit else [request]
    if charged:
        return _restart_transition(context, after, charged)
    return _replace_disrupted(after, granted, context.now) if granted else None


def backoff_left(group_state: GroupState, now: datetime) -> timedelta:
    """Return how long the pods of a repeatedly restarted group must still wait."""
    if group_state.last_restart_at is None or group_state.restart_streak <= 1:
        return timedelta(0)
    wait = min(timedelta(seconds=2 ** min(group_state.restart_streak - 2, 16)), MAX_BACKOFF)
    passed = now - group_state.last_restart_at
    # The last restart may lie in the future if the clock was set back or another operator recorded it.
    return max(wait - passed, timedelta(0)) if passed >= timedelta(0) else timedelta(0)


def has_restarts_left(group: ReplicaGroup, group_state: GroupState) -> bool:
    used = group_state.count_restarts(with_disruptions=group.restart_rule.counts_disruptions)
    return group.restart_rule.limit is None or used < group.restart_rule.limit


def _charge_restart(job: Job, state: EngineState, request: RestartRequest, now: datetime) -> EngineState:
    group, index = request.replica.rank.group, request.replica.rank.index
    restarted = [group]
    if request.scope is RestartScope.ALL:
        managed = [each for each in job.groups if membership_of(each).is_engine_managed]
        # The store of a rendezvous serves the next attempt, too.
        restarted = [each for each in managed if group.is_control or not each.is_control]
    groups = {**state.groups}
    for each in restarted:
        group_state = _count_restart(state.group(each.name), request, now)
        groups[each.name] = _raise_min_attempt(group_state, request.scope, index)
    is_new_streak = _is_new_streak(state.group(group.name), now)
    groups[group.name] = count_start_failure(groups[group.name], request.replica, is_new_streak=is_new_streak)
    if request.is_exempt_from_limit:
        return replace(state, groups=groups)
    avoided = state.avoided_nodes
    if request.cause is not RestartCause.APP and request.replica.pod is not None:
        node = request.replica.pod.node
        avoided = (*(each for each in avoided if each != node), node)[-MAX_AVOIDED_NODES:]
    return replace(state, groups=groups, last_restarted_group=group.name, avoided_nodes=avoided)


def _count_restart(group_state: GroupState, request: RestartRequest, now: datetime) -> GroupState:
    """Count one more restart; the streak grows if a replica that was restarted in it fails again."""
    attempt, counts, replica = group_state.attempt + 1, group_state.restarts_by_cause, request.replica
    is_reset = _is_new_streak(group_state, now) or _was_stable(replica.pod, now)
    # A node failure that hits eight replicas is one round of restarts, not eight.
    is_repeated = request.scope is not RestartScope.POD or replica.rank.attempt >= group_state.streak_start_attempt
    stuck = replica.pod.stuck_container if request.cause is RestartCause.CREATION and replica.pod else None
    # Where disruptions count against the limit, one that does not is not counted at all.
    if not (request.is_exempt_from_limit and replica.rank.group.restart_rule.counts_disruptions):
        counts = {**counts, request.cause: counts.get(request.cause, 0) + 1}
    return replace(
        group_state,
        attempt=attempt,
        restarts_by_cause=counts,
        last_restart_at=now,
        restart_streak=1 if is_reset else group_state.restart_streak + is_repeated,
        streak_start_attempt=attempt if is_reset or is_repeated else group_state.streak_start_attempt,
        creation_stuck_since=group_state.creation_stuck_since or (stuck.since if stuck else None),
    )


def _was_stable(pod: ObservedPod | None, now: datetime) -> bool:
    if pod is None or pod.started_at is None:
        return False
    return (pod.finished_at or now) - pod.started_at >= STABLE_RUN


def _is_new_streak(group_state: GroupState, now: datetime) -> bool:
    if group_state.last_restart_at is None:
        return True
    # The last restart may lie in the future if the clock was set back while no operator ran.
    return not timedelta(0) <= now - group_state.last_restart_at < BACKOFF_RESET_AFTER


def _raise_min_attempt(group_state: GroupState, scope: RestartScope, index: int) -> GroupState:
    """Raise the minimum attempt of the scope to the current attempt, which makes the running pods stale."""
    attempt = group_state.attempt
    match scope:
        case RestartScope.POD:
            outcomes = {i: outcome for i, outcome in group_state.replica_outcomes.items() if i != index}
            min_attempts = {**group_state.index_min_attempts, index: attempt}
            return replace(group_state, index_min_attempts=min_attempts, replica_outcomes=outcomes)
        case RestartScope.REPLICA:
            return replace(group_state, group_min_attempt=attempt, index_min_attempts={}, replica_outcomes={})
        case RestartScope.ALL:
            return replace(group_state, job_min_attempt=attempt, index_min_attempts={}, replica_outcomes={})


def _restart_transition(context: Context, state: EngineState, charged: list[RestartRequest]) -> Transition:
    group = charged[0].replica.rank.group
    limit = group.restart_rule.limit
    used = state.group(group.name).count_restarts(with_disruptions=group.restart_rule.counts_disruptions)
    failed, unstarted = [request.replica for request in charged], list_unstarted(state, context.replicas.all)
    state = set_root_cause(state, failed, unstarted, context.now)
    cause = message(
        MessageReason.RESTARTING,
        [failure_message(request.replica) for request in charged],
        group=group.name,
        used=used,
        scope=str(charged[0].scope),
        limit=limit,
    )
    after = replace(state, phase=JobPhase.RESTARTING, message=cause, restart_count=state.restart_count + len(charged))
    return make_transition(after, context.now, str(JobPhase.RESTARTING), cause)


def _replace_disrupted(state: EngineState, uncharged: list[RestartRequest], now: datetime) -> Transition:
    """Replace disrupted replicas; the job stays in its phase, unless all replicas restart."""
    replaced = message(MessageReason.DISRUPTED_REPLACED, [failure_message(request.replica) for request in uncharged])
    if any(request.scope is RestartScope.ALL for request in uncharged):
        state = replace(state, phase=JobPhase.RESTARTING, message=replaced)
    return make_transition(state, now, "Disrupted", replaced)
