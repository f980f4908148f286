"""Who ended badly and how: kept while pods come and go, so that the first cause can be named at the end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.roster import Place, Standing
from pliant.model.observed import ObservedPod
from pliant.model.state import Cause, EngineState, Failure, Outcome

MOST_KEPT = 8
"""Failures kept; the oldest go first."""
LINE = 160
"""Characters of what each of them said; the first cause is quoted in full."""


def witnessed(state: EngineState, places: Iterable[Place], now: datetime) -> EngineState:
    """The memory with these failures among those kept; what is known of one never changes."""
    known = {(failure.member, failure.attempt) for failure in state.failures}
    fresh = [each for each in failures_at(state, places, now) if (each.member, each.attempt) not in known]
    if not fresh:
        return state
    kept = (*state.failures, *(replace(each, message=_line(each.message)) for each in fresh[:MOST_KEPT]))
    return replace(state, failures=kept[-MOST_KEPT:])


def blamed(state: EngineState, places: Iterable[Place], now: datetime) -> EngineState:
    """The memory with the earliest of these failures as the first cause of what is decided now."""
    everyone = list(places)
    found = failures_at(state, everyone, now)
    return replace(witnessed(state, everyone, now), first_cause=found[0] if found else None)


def endings(state: EngineState, places: Iterable[Place]) -> list[Place]:
    """The members that have ended badly and are not known to have."""
    return [
        place
        for place in places
        if place.standing is Standing.FAILED
        and state.group(place.rank.group.name).finished.get(place.rank.index) is not Outcome.FAILED
    ]


def failures_at(state: EngineState, places: Iterable[Place], now: datetime) -> list[Failure]:
    """How these members failed, the earliest first; of one whose pod is gone, what was known."""
    known = {(failure.member, failure.attempt): failure for failure in state.failures}
    found = []
    for place in places:
        attempt = place.pod.attempt if place.pod else place.rank.attempt
        kept = known.get((place.title, attempt))
        if place.pod is None:
            found.append(kept or Failure(member=place.title, attempt=attempt, at=now))
            continue
        fresh = _failure(place, place.pod, now)
        # At the scene more can be quoted than was kept.
        found.append(replace(kept, message=fresh.message) if kept else fresh)
    return sorted(found, key=lambda failure: (failure.at, failure.member))


def _failure(place: Place, pod: ObservedPod, now: datetime) -> Failure:
    end, fault = pod.exit, pod.fault
    about = Failure(
        member=place.title,
        attempt=pod.attempt,
        cause=place.cause,
        node=pod.node,
        at=pod.finished_at or (fault.since if fault else now),
        reason=fault.what if fault else "",
    )
    if pod.stuck is not None and place.standing is Standing.SCHEDULED:
        return replace(
            about,
            cause=Cause.CREATION,
            container=pod.stuck.container,
            reason=pod.stuck.reason,
            message=pod.trouble,
            at=pod.stuck.since,
        )
    if end is None:
        return about
    return replace(
        about,
        container=end.container,
        code=end.code,
        signal=end.signal,
        reason=end.reason or about.reason,
        message=end.last_words or end.message,
    )


def _line(text: str) -> str:
    """The last line of a quotation, if need be its end."""
    lines = text.splitlines()
    return lines[-1][-LINE:] if lines else ""
