"""How restarts are charged, how far they reach, and how long they wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.restart.requests import RestartRequest, list_restart_requests
from pliant.engine.status.failures import set_root_cause
from pliant.engine.status.messages import join_names
from pliant.model.job import Job, MembershipSource, ReplicaGroup, RestartScope
from pliant.model.state import EngineState, GroupState, JobPhase, RestartCause

MAX_BACKOFF = timedelta(minutes=5)
BACKOFF_RESET_AFTER = timedelta(minutes=10)
"""A group that went this long without a restart starts again with no wait."""
MAX_AVOIDED_NODES = 8
"""Nodes kept off; the oldest grudge is forgotten first."""


def restart_replicas(context: Context) -> Transition | None:
    """Restart whoever calls for it and may be restarted."""
    chosen: list[RestartRequest] = []
    after = context.state
    for call in list_restart_requests(context):
        group, index = call.replica.rank.group, call.replica.rank.index
        memory = after.group(group.name)
        if call.replica.rank.attempt < memory.min_attempt(index):
            continue  # a wider restart, decided a moment ago, takes this member along
        spent = context.state.restart_count + sum(not each.is_uncharged for each in chosen)
        if call.is_uncharged or (is_within_budget(group, memory) and _is_within_job_limit(context.job, spent)):
            after = _charge_restart(context.job, after, call, context.now)
            chosen.append(call)
    if not chosen:
        return None
    paid = [call for call in chosen if not call.is_uncharged]
    return _restart_transition(after, paid, context.now) if paid else _replace_disrupted(after, chosen, context.now)


def backoff_left(group_state: GroupState, now: datetime) -> timedelta:
    """How long a group that keeps failing must still wait before its members come back."""
    if group_state.last_restart_at is None or group_state.restart_streak <= 1:
        return timedelta(0)
    wait = min(timedelta(seconds=2 ** min(group_state.restart_streak - 2, 16)), MAX_BACKOFF)
    passed = now - group_state.last_restart_at
    # By a clock that was put back, or another operator's, it may lie ahead: nobody waits for that day.
    return max(wait - passed, timedelta(0)) if passed >= timedelta(0) else timedelta(0)


def is_within_budget(group: ReplicaGroup, group_state: GroupState) -> bool:
    """Whether a group may still be restarted, as far as its own limit goes."""
    spent = group_state.count_restarts(with_disruptions=group.restart_rule.counts_disruptions)
    return group.restart_rule.limit is None or spent < group.restart_rule.limit


def _is_within_job_limit(job: Job, restart_count: int) -> bool:
    return job.restart_limit is None or restart_count < job.restart_limit


def _charge_restart(job: Job, state: EngineState, request: RestartRequest, now: datetime) -> EngineState:
    group, index = request.replica.rank.group, request.replica.rank.index
    steady = tuple(each for each in job.groups if each.membership_source is MembershipSource.ENGINE)
    reached = steady if request.scope is RestartScope.ALL else (group,)
    groups = {**state.groups}
    for each in reached:
        groups[each.name] = _raise_min_attempt(
            _count_restart(state.group(each.name), request, now), request.scope, index
        )
    if request.is_uncharged:
        return replace(state, groups=groups)
    avoided = state.avoided_nodes
    if request.cause is not RestartCause.APP and request.replica.pod is not None:
        node = request.replica.pod.node
        avoided = (*(each for each in avoided if each != node), node)[-MAX_AVOIDED_NODES:]
    return replace(state, groups=groups, last_restarted_group=group.name, avoided_nodes=avoided)


def _count_restart(group_state: GroupState, request: RestartRequest, now: datetime) -> GroupState:
    """One more restart on the account; the streak grows when those fail again who have been restarted in it."""
    attempt = group_state.attempt + 1
    is_calm = group_state.last_restart_at is None or now - group_state.last_restart_at >= BACKOFF_RESET_AFTER
    # A node that takes eight members with it is one misfortune, not eight.
    is_again = request.scope is not RestartScope.POD or request.replica.rank.attempt >= group_state.streak_start_attempt
    stuck = (
        request.replica.pod.stuck_container if request.cause is RestartCause.CREATION and request.replica.pod else None
    )
    return replace(
        group_state,
        attempt=attempt,
        restarts_by_cause={
            **group_state.restarts_by_cause,
            request.cause: group_state.restarts_by_cause.get(request.cause, 0) + 1,
        },
        last_restart_at=now,
        restart_streak=1 if is_calm else group_state.restart_streak + is_again,
        streak_start_attempt=attempt if is_calm or is_again else group_state.streak_start_attempt,
        creation_stuck_since=group_state.creation_stuck_since or (stuck.since if stuck else None),
    )


def _raise_min_attempt(group_state: GroupState, scope: RestartScope, index: int) -> GroupState:
    """Lift the floor of whatever restarts to the present attempt: what lies below is stale."""
    match scope:
        case RestartScope.POD:
            finished = {i: outcome for i, outcome in group_state.replica_outcomes.items() if i != index}
            floors = {**group_state.index_min_attempts, index: group_state.attempt}
            return replace(group_state, index_min_attempts=floors, replica_outcomes=finished)
        case RestartScope.REPLICA:
            return replace(
                group_state, group_min_attempt=group_state.attempt, index_min_attempts={}, replica_outcomes={}
            )
        case RestartScope.ALL:
            return replace(group_state, job_min_attempt=group_state.attempt, index_min_attempts={}, replica_outcomes={})


def _restart_transition(state: EngineState, charged: list[RestartRequest], now: datetime) -> Transition:
    group = charged[0].replica.rank.group
    limit = group.restart_rule.limit
    spent = state.group(group.name).count_restarts(with_disruptions=group.restart_rule.counts_disruptions)
    budget = f"{spent} of {limit}" if limit is not None else str(spent)
    state = set_root_cause(state, [call.replica for call in charged], now)
    message = (
        f"{join_names([str(call) for call in charged])}; restart {budget} of {group.name}, scope {charged[0].scope}"
    )
    after = replace(state, phase=JobPhase.RESTARTING, message=message, restart_count=state.restart_count + len(charged))
    return make_transition(after, now, str(JobPhase.RESTARTING), message)


def _replace_disrupted(state: EngineState, uncharged: list[RestartRequest], now: datetime) -> Transition:
    """Nobody's fault: the job stays in its phase while a member is replaced."""
    message = f"{join_names([str(call) for call in uncharged])}; replaced at no charge"
    return make_transition(state, now, "Disrupted", message)
