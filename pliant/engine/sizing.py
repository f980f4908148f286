"""How many members a group is to have: the latest request wins, within the group's bounds."""

from __future__ import annotations

from dataclasses import replace as altered
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned
from pliant.model.job import Group, Job
from pliant.model.state import EngineState, GroupState, Request, Requester

_ORDER = list(Requester)


def with_requests(job: Job, state: EngineState, now: datetime) -> EngineState:
    """The memory with the sizes that are asked for at present; one asked for anew is asked for now."""
    groups = {group.name: _noted(group, state.group(group.name), now) for group in job.groups}
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
    changes = [
        (group, memory, wanted)
        for group in case.asked.groups
        if (memory := case.state.group(group.name)).size != (wanted := wanted_size(group, memory))
    ]
    if not changes:
        return None
    said = ", ".join(f"{group.name} from {memory.size} to {wanted}" for group, memory, wanted in changes)
    askers = sorted({_latest(memory.requests) or "default" for _, memory, _ in changes})
    message = f"resizing {said} ({' and '.join(_ASKED_BY[asker] for asker in askers)})"
    groups = {group.name: _moved(memory, wanted) for group, memory, wanted in changes}
    state = replace(case.state, groups={**case.state.groups, **groups})
    return turned(state, case.now, "Resized", message, is_warning=False)


def wanted_size(group: Group, memory: GroupState) -> int:
    """The size asked for last, kept within the bounds."""
    latest = _latest(memory.requests)
    size = group.size if latest is None else memory.requests[latest].size
    return max(group.least, size if group.most is None else min(size, group.most))


_ASKED_BY = {Requester.SPEC: "replicas was edited", Requester.SCALE: "scaled", "default": "bounds were edited"}


def _latest(requests: dict[Requester, Request]) -> Requester | None:
    return max(requests, key=lambda who: (requests[who].at, _ORDER.index(who)), default=None)


def _noted(group: Group, memory: GroupState, now: datetime) -> GroupState:
    requests = {who: _since(memory.requests.get(who), size, now) for who, size in group.requests.items()}
    after = replace(memory, requests=requests, template=memory.template or group.fingerprint)
    # Nobody has to be told of the first size: it is simply what the job is.
    return after if memory.size is not None else replace(after, size=wanted_size(group, after))


def _since(before: Request | None, size: int, now: datetime) -> Request:
    return before if before is not None and before.size == size else Request(size=size, at=now)


def _moved(memory: GroupState, size: int) -> GroupState:
    return replace(
        memory,
        size=size,
        index_floors={index: floor for index, floor in memory.index_floors.items() if index < size},
        finished={index: outcome for index, outcome in memory.finished.items() if index < size},
    )
