"""How restarts are charged, how far they reach, and how long they wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.calls import Call, calls
from pliant.engine.case import Case, Turn, turned
from pliant.engine.failures import blamed
from pliant.engine.wording import listing
from pliant.model.job import Group, Job, RestartScope, Steward
from pliant.model.state import Cause, EngineState, GroupState, Phase

LONGEST_WAIT = timedelta(minutes=5)
CALM = timedelta(minutes=10)
"""A group that went this long without a restart starts again with no wait."""
MOST_AVOIDED = 8
"""Nodes kept off; the oldest grudge is forgotten first."""


def restarted(case: Case) -> Turn | None:
    """Restart whoever calls for it and may be restarted."""
    chosen: list[Call] = []
    after = case.state
    for call in calls(case):
        group, index = call.place.rank.group, call.place.rank.index
        memory = after.group(group.name)
        if call.place.rank.attempt < memory.wanted_attempt(index):
            continue  # a wider restart, decided a moment ago, takes this member along
        spent = case.state.restarts + sum(not each.is_free for each in chosen)
        if call.is_free or (is_within_budget(group, memory) and _may_restart(case.job, spent)):
            after = _charged(case.job, after, call, case.now)
            chosen.append(call)
    if not chosen:
        return None
    paid = [call for call in chosen if not call.is_free]
    return _announced(after, paid, case.now) if paid else _regretted(after, chosen, case.now)


def wait_left(memory: GroupState, now: datetime) -> timedelta:
    """How long a group that keeps failing must still wait before its members come back."""
    if memory.restarted_at is None or memory.streak <= 1:
        return timedelta(0)
    wait = min(timedelta(seconds=2 ** min(memory.streak - 2, 16)), LONGEST_WAIT)
    passed = now - memory.restarted_at
    # By a clock that was put back, or another operator's, it may lie ahead: nobody waits for that day.
    return max(wait - passed, timedelta(0)) if passed >= timedelta(0) else timedelta(0)


def is_within_budget(group: Group, memory: GroupState) -> bool:
    """Whether a group may still be restarted, as far as its own limit goes."""
    spent = memory.charged(with_disruptions=group.restart.counts_disruptions)
    return group.restart.limit is None or spent < group.restart.limit


def _may_restart(job: Job, spent: int) -> bool:
    return job.restart_limit is None or spent < job.restart_limit


def _charged(job: Job, state: EngineState, call: Call, now: datetime) -> EngineState:
    group, index = call.place.rank.group, call.place.rank.index
    steady = tuple(each for each in job.groups if each.steward is Steward.ENGINE)
    reached = steady if call.scope is RestartScope.ALL else (group,)
    groups = {**state.groups}
    for each in reached:
        groups[each.name] = _raised(_spent(state.group(each.name), call, now), call.scope, index)
    if call.is_free:
        return replace(state, groups=groups)
    avoided = state.avoided
    if call.cause is not Cause.APP and call.place.pod is not None:
        node = call.place.pod.node
        avoided = (*(each for each in avoided if each != node), node)[-MOST_AVOIDED:]
    return replace(state, groups=groups, restarted_group=group.name, avoided=avoided)


def _spent(memory: GroupState, call: Call, now: datetime) -> GroupState:
    """One more restart on the account; the streak grows when those fail again who have been restarted in it."""
    attempt = memory.attempt + 1
    is_calm = memory.restarted_at is None or now - memory.restarted_at >= CALM
    # A node that takes eight members with it is one misfortune, not eight.
    is_again = call.scope is not RestartScope.POD or call.place.rank.attempt >= memory.streak_from
    stuck = call.place.pod.stuck if call.cause is Cause.CREATION and call.place.pod else None
    return replace(
        memory,
        attempt=attempt,
        restarts={**memory.restarts, call.cause: memory.restarts.get(call.cause, 0) + 1},
        restarted_at=now,
        streak=1 if is_calm else memory.streak + is_again,
        streak_from=attempt if is_calm or is_again else memory.streak_from,
        stuck_from=memory.stuck_from or (stuck.since if stuck else None),
    )


def _raised(memory: GroupState, scope: RestartScope, index: int) -> GroupState:
    """Lift the floor of whatever restarts to the present attempt: what lies below is stale."""
    match scope:
        case RestartScope.POD:
            finished = {i: outcome for i, outcome in memory.finished.items() if i != index}
            floors = {**memory.index_floors, index: memory.attempt}
            return replace(memory, index_floors=floors, finished=finished)
        case RestartScope.REPLICA:
            return replace(memory, group_floor=memory.attempt, index_floors={}, finished={})
        case RestartScope.ALL:
            return replace(memory, job_floor=memory.attempt, index_floors={}, finished={})


def _announced(state: EngineState, paid: list[Call], now: datetime) -> Turn:
    group = paid[0].place.rank.group
    limit = group.restart.limit
    spent = state.group(group.name).charged(with_disruptions=group.restart.counts_disruptions)
    budget = f"{spent} of {limit}" if limit is not None else str(spent)
    state = blamed(state, [call.place for call in paid], now)
    message = f"{listing([str(call) for call in paid])}; restart {budget} of {group.name}, scope {paid[0].scope}"
    after = replace(state, phase=Phase.RESTARTING, message=message, restarts=state.restarts + len(paid))
    return turned(after, now, str(Phase.RESTARTING), message)


def _regretted(state: EngineState, free: list[Call], now: datetime) -> Turn:
    """Nobody's fault: the job stays in its phase while a member is replaced."""
    message = f"{listing([str(call) for call in free])}; replaced at no charge"
    return turned(state, now, "Disrupted", message)
