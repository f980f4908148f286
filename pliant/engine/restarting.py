"""Which failures lead to a restart, how far it reaches, and how long it waits."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.roster import Place, Roster
from pliant.engine.timeline import noted
from pliant.engine.wording import failure_of, listing
from pliant.model.job import Group, Job, RestartPolicy, RestartScope
from pliant.model.state import Cause, EngineState, GroupState, Phase

LONGEST_WAIT = timedelta(minutes=5)
CALM = timedelta(minutes=10)
"""A group that went this long without a restart starts again with no wait."""


def restarted(job: Job, roster: Roster, state: EngineState, now: datetime) -> EngineState | None:
    """The memory of a job whose failed members are to be restarted, or None if none may be."""
    failed = [place for place in roster.failed() if place.pod is not None and _is_restartable(job, place)]
    chosen: list[Place] = []
    after = state
    for place in sorted(failed, key=_widest_first):
        memory = after.group(place.rank.group.name)
        if place.rank.attempt < memory.wanted_attempt(place.rank.index):
            continue  # a wider restart, decided a moment ago, takes this member along
        if _is_within_budget(place.rank.group, memory):
            after = _charged(job, after, place, now)
            chosen.append(place)
    if not chosen:
        return None
    return _announced(after, chosen, now)


def wait_left(memory: GroupState, now: datetime) -> timedelta:
    """How long a group that keeps failing must still wait before its members come back."""
    if memory.restarted_at is None or memory.streak <= 1:
        return timedelta(0)
    wait = min(timedelta(seconds=2 ** min(memory.streak - 2, 16)), LONGEST_WAIT)
    return max(memory.restarted_at + wait - now, timedelta(0))


def total(memory: GroupState) -> int:
    """Restarts charged to a group, whatever their cause."""
    return sum(memory.restarts.values())


def _is_restartable(job: Job, place: Place) -> bool:
    match place.rank.group.restart.policy:
        case RestartPolicy.ALWAYS | RestartPolicy.ON_FAILURE:
            return True
        case RestartPolicy.EXIT_CODE | RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE:
            end = place.pod.exit if place.pod else None
            return end is not None and end.code in job.restart_exit_codes
        case RestartPolicy.ON_NODE_FAIL | RestartPolicy.NEVER | None:
            return False


def _widest_first(place: Place) -> int:
    return (RestartScope.ALL, RestartScope.REPLICA, RestartScope.POD).index(place.rank.group.restart.scope)


def _is_within_budget(group: Group, memory: GroupState) -> bool:
    return group.restart.limit is None or total(memory) < group.restart.limit


def _charged(job: Job, state: EngineState, place: Place, now: datetime) -> EngineState:
    group, index = place.rank.group, place.rank.index
    scope = group.restart.scope
    reached = job.groups if scope is RestartScope.ALL else (group,)
    groups = {**state.groups}
    for each in reached:
        groups[each.name] = _raised(_spent(state.group(each.name), now), scope, index)
    return replace(state, groups=groups, restarted_group=group.name)


def _spent(memory: GroupState, now: datetime) -> GroupState:
    is_calm = memory.restarted_at is None or now - memory.restarted_at >= CALM
    return replace(
        memory,
        attempt=memory.attempt + 1,
        restarts={**memory.restarts, Cause.APP: memory.restarts.get(Cause.APP, 0) + 1},
        restarted_at=now,
        streak=1 if is_calm else memory.streak + 1,
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


def _announced(state: EngineState, chosen: list[Place], now: datetime) -> EngineState:
    group = chosen[0].rank.group
    limit = group.restart.limit
    spent = total(state.group(group.name))
    budget = f"{spent} of {limit}" if limit is not None else str(spent)
    causes = listing([failure_of(place) for place in chosen])
    message = f"{causes}; restart {budget} of {group.name}, scope {group.restart.scope}"
    return replace(
        noted(state, now, str(Phase.RESTARTING), message),
        phase=Phase.RESTARTING,
        message=message,
        restarts=state.restarts + len(chosen),
    )
