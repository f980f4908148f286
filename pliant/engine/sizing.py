"""How many members a group is to have: the latest request wins, within the group's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as altered
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned
from pliant.model.job import Group, Job, Resize, Steward
from pliant.model.observed import Wish
from pliant.model.state import Advice, EngineState, GroupState, Phase, Request, Requester

RESIZED = "Resized"
"""What a resize is called in a job's story."""


def with_requests(job: Job, wishes: Mapping[str, Wish], state: EngineState, now: datetime) -> EngineState:
    """The memory with the sizes that are asked for at present; one asked for anew is asked for now."""
    groups = {
        group.name: _noted(group, wishes.get(group.name), state.group(group.name), now) for group in job.groups
    }
    return replace(state, groups={**state.groups, **groups})


def sized(job: Job, state: EngineState) -> Job:
    """The job with its groups at the sizes that are acted upon."""
    sizes = {group.name: state.group(group.name).size for group in job.groups}
    if all(sizes[group.name] in (None, group.size) for group in job.groups):
        return job
    groups = [(group, sizes[group.name]) for group in job.groups]
    return altered(
        job, groups=tuple(group if size is None else altered(group, size=size) for group, size in groups)
    )


def resized(case: Case) -> Turn | None:
    """Take on the sizes that are wanted by now; whoever has to leave is forgotten, not counted as failed."""
    wanted = {group.name: wanted_size(group, case.state.group(group.name)) for group in case.asked.groups}
    changed = [
        group
        for group in case.asked.groups
        if group.steward is Steward.ENGINE and case.state.group(group.name).size != wanted[group.name]
    ]
    is_resting = case.state.phase is Phase.SUSPENDED  # whoever comes after a rest is told everything anew
    moving = [group for group in changed if group.resize is not Resize.HOLD or is_resting]
    if not moving:
        return _refused(case, changed, wanted)
    memories = {group.name: case.state.group(group.name) for group in moving}
    said = ", ".join(f"{name} from {memory.size} to {wanted[name]}" for name, memory in memories.items())
    why = " and ".join(sorted({_asked_by(memory, _before(case, name)) for name, memory in memories.items()}))
    message = f"resizing {said} ({why})"
    groups = {name: _moved(memory, wanted[name]) for name, memory in memories.items()}
    state = replace(case.state, groups={**case.state.groups, **groups})
    if any(group.resize is not Resize.JOIN for group in moving):
        message = message if is_resting else f"{message}; all members start again, to be told of it"
        state = _all_anew(case.job, state, message)
    return turned(state, case.now, RESIZED, message, is_warning=False)


def wanted_size(group: Group, memory: GroupState) -> int:
    """The size asked for last, kept within the bounds."""
    latest = memory.latest
    size = group.size if latest is None else memory.requests[latest].size
    return max(group.least, size if group.most is None else min(size, group.most))


def is_overtaken(wish: Wish, requests: Mapping[Requester, Request]) -> bool:
    """Whether somebody has asked for a size that was not known when this one was wanted."""
    asked = (each.at for who, each in requests.items() if who is not Requester.AUTOSCALER)
    return wish.known_at is not None and any(at > wish.known_at for at in asked)


_ASKED_BY = {
    Requester.MASTER: "the master asks for it",
    Requester.PLAN: "a plan asks for it",
    Requester.SPEC: "replicas was edited",
    Requester.SCALE: "scaled",
    None: "bounds were edited",
}


def _asked_by(memory: GroupState, before: GroupState) -> str:
    latest = memory.latest
    if latest is Requester.AUTOSCALER:
        return f"autoscaler: {memory.requests[latest].why}"
    if before.latest is Requester.AUTOSCALER and Requester.AUTOSCALER not in memory.requests:
        return "the autoscaler was kept out"
    return _ASKED_BY[latest]


def _before(case: Case, group: str) -> GroupState:
    """What was remembered of a group when the last pass ended."""
    return case.job.state.group(group) if case.job.state else GroupState()


def _refused(case: Case, held: list[Group], wanted: Mapping[str, int]) -> Turn | None:
    """Tell once of a size that cannot be taken on."""
    memories = {group.name: case.state.group(group.name) for group in held}
    news = [group for group in held if memories[group.name].refused != wanted[group.name]]
    if not news:
        return None
    said = [
        f"{each.name} stays at {memories[each.name].size}, not {wanted[each.name]}: {each.hold}" for each in news
    ]
    groups = {each.name: replace(memories[each.name], refused=wanted[each.name]) for each in news}
    return turned(
        replace(case.state, groups={**case.state.groups, **groups}), case.now, "SizeHeld", "; ".join(said)
    )


def _noted(group: Group, wish: Wish | None, memory: GroupState, now: datetime) -> GroupState:
    requests = {who: _since(memory.requests.get(who), size, now) for who, size in group.requests.items()}
    # What plans have asked for stands although they are gone.
    requests |= {who: each for who, each in memory.requests.items() if who in (Requester.MASTER, Requester.PLAN)}
    if group.is_automatic and (order := _ordered(wish, memory, requests)) is not None:
        requests[Requester.AUTOSCALER] = order
    advice = _advised(wish, memory) if group.is_automatic else None
    speeds = dict(wish.speeds) if wish is not None and wish.speeds else memory.speeds
    after = replace(
        memory,
        requests=requests,
        advice=advice,
        speeds=speeds,
        template=memory.template or group.fingerprint,
    )
    size = wanted_size(group, after)
    if memory.size is None:
        return replace(after, size=size)  # nobody has to be told of the first size: it is simply what the job is
    return replace(after, refused=None) if size == memory.size else after


def _ordered(wish: Wish | None, memory: GroupState, others: Mapping[Requester, Request]) -> Request | None:
    """The autoscaler's request: what it asks for now, or asked for last; it is silent while an operator starts."""
    before = memory.requests.get(Requester.AUTOSCALER)
    if wish is None or not wish.is_order or is_overtaken(wish, others):
        return before
    advice = wish.advice
    is_old = advice.size == memory.size or (before is not None and advice.at <= before.at)
    return before if is_old else Request(size=advice.size, at=advice.at, why=advice.why)


def _advised(wish: Wish | None, memory: GroupState) -> Advice | None:
    """The autoscaler's word; one that differs in nothing but its text is no news."""
    before = memory.advice
    if wish is None:
        return before
    is_news = before is None or (before.size, before.code) != (wish.advice.size, wish.advice.code)
    return wish.advice if is_news else before


def _since(before: Request | None, size: int, now: datetime) -> Request:
    return before if before is not None and before.size == size else Request(size=size, at=now)


def _moved(memory: GroupState, size: int) -> GroupState:
    return replace(
        memory,
        size=size,
        refused=None,
        index_floors={index: floor for index, floor in memory.index_floors.items() if index < size},
        finished={index: outcome for index, outcome in memory.finished.items() if index < size},
    )


def _all_anew(job: Job, state: EngineState, message: str) -> EngineState:
    """Start every member again: no failure, so nobody's budget is charged and nobody has to wait."""
    steady = [group.name for group in job.groups if group.steward is Steward.ENGINE]
    groups = {name: _floored(state.group(name)) for name in steady}
    phase = Phase.RESTARTING if state.phase is Phase.RUNNING else state.phase
    return replace(state, phase=phase, message=message, groups={**state.groups, **groups})


def _floored(memory: GroupState) -> GroupState:
    attempt = memory.attempt + 1
    return replace(memory, attempt=attempt, job_floor=attempt, index_floors={}, finished={})
