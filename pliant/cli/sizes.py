"""Why groups have the sizes they have: who asked for what, and what the autoscaler thinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from pliant.engine.sizing import sized
from pliant.model.job import Group, Job
from pliant.model.state import GroupState, Requester

ASKERS = {
    Requester.AUTOSCALER: "autoscaler",
    Requester.MASTER: "master",
    Requester.PLAN: "plan",
    Requester.SPEC: "replicas",
    Requester.SCALE: "scale",
}
"""Who asks for sizes, in one word."""
_ASKED = {
    Requester.AUTOSCALER: "the autoscaler",
    Requester.MASTER: "the job's master",
    Requester.PLAN: "a plan written by hand",
    Requester.SPEC: "an edit of replicas",
    Requester.SCALE: "scaling",
}


def size_sentences(job: Job, ago: Callable[[datetime], str]) -> Iterator[str]:
    """Who asked for which size, where more than one size was ever asked for or bounds hold it back."""
    if job.state is None:
        return
    for group in sized(job, job.state).groups:
        memory = job.state.group(group.name)
        asked = memory.requests.items()
        is_plain = len(asked) < 2 and all(
            who is not Requester.AUTOSCALER and each.size == group.size for who, each in asked
        )
        if not is_plain and memory.latest is not None:
            yield _asked(group, memory, memory.latest, ago)
        if thought := opinion(group, memory):
            yield f"{group.name}: {thought}."


def _asked(group: Group, memory: GroupState, latest: Requester, ago: Callable[[datetime], str]) -> str:
    request = memory.requests[latest]
    why = f" ({request.why})" if request.why else ""
    asked = f"{_ASKED[latest]} asked for {request.size} {ago(request.at)}{why}"
    others = [f"{_ASKED[who]} for {each.size}" for who, each in memory.requests.items() if who is not latest]
    bounds = (
        f", within {within}{'' if group.most is not None else 'any'}" if (within := bounds_text(group)) else ""
    )
    before = f"; before that {' and '.join(others)}" if others else ""
    return f"{group.name} has size {group.size}: {asked}{before}{bounds}."


def bounds_text(group: Group) -> str:
    """Between which sizes a group may move: `1–4`, `2–`; empty if nothing bounds it."""
    is_bounded = group.is_elastic and (group.least > 0 or group.most is not None)
    return f"{group.least}–{'' if group.most is None else group.most}" if is_bounded else ""


def opinion(group: Group, memory: GroupState) -> str:
    """What the autoscaler thinks of a size, or why nobody can change it; empty if there is nothing to say."""
    # That the servers of every job are as many as they were is no news, until somebody wants it otherwise.
    if group.hold and (group.is_elastic or memory.refused is not None):
        return f"its size stays: {group.hold}"
    advice = memory.advice
    if advice is None:
        return ""
    size = group.size if memory.size is None else memory.size
    right = "that right" if advice.size == size else f"{advice.size} right"
    return f"the autoscaler thinks {right}: {advice.why} ({advice.code})"
