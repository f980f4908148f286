"""What an event of events.k8s.io must tell, and what of it may change."""

from __future__ import annotations

from pliant.embedded.catalog.forms import EVENTS
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.storage.records import Object

_REQUIRED = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024}
_UNSET = ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
_TYPES = ("Normal", "Warning")
_LEAST_REPEATED = 2


def event_problems(event: Object, old: Object | None) -> list[Problem]:
    """Everything wrong with an event of the newer form; the older one must only be about its own namespace."""
    if event.get("apiVersion") != EVENTS.api_version:
        place = (event.get("involvedObject") or {}).get("namespace")
        return [_misplaced(place)] if place and place != event["metadata"].get("namespace") else []
    return _creation_problems(event) if old is None else _change_problems(event, EVENTS.shown(old))


def _creation_problems(event: Object) -> list[Problem]:
    problems = [
        Problem(field, Reason.REQUIRED.cause, Reason.REQUIRED.words) for field in _REQUIRED if not event.get(field)
    ]
    for field, longest in _LONGEST.items():
        if len(str(event.get(field) or "").encode()) > longest:
            problems.append(Problem.of(field, Reason.INVALID, "", f"can have at most {longest} characters"))
    problems += [
        Problem.of(field, Reason.INVALID, event[field], "needs to be unset")
        for field in _UNSET
        if event.get(field)
    ]
    if event.get("type") not in _TYPES:
        problems.append(Problem.of("type", Reason.INVALID, event.get("type") or "", "must be Normal or Warning"))
    if _place(event) != event["metadata"].get("namespace"):
        problems.append(_misplaced(_place(event)))
    return problems + _series_problems(event)


def _misplaced(place: str) -> Problem:
    return Problem.of("involvedObject.namespace", Reason.INVALID, place, "does not match event.namespace")


def _series_problems(event: Object) -> list[Problem]:
    series = event.get("series")
    if not series:
        return []
    problems = []
    if (series.get("count") or 0) < _LEAST_REPEATED:
        why = f"should be at least {_LEAST_REPEATED}"
        problems.append(Problem.of("series.count", Reason.INVALID, series.get("count") or 0, why))
    if not series.get("lastObservedTime"):
        problems.append(Problem("series.lastObservedTime", Reason.REQUIRED.cause, Reason.REQUIRED.words))
    return problems


def _change_problems(event: Object, old: Object) -> list[Problem]:
    """Only how often an event happened may change, and what is written on every object."""
    free = {"apiVersion", "kind", "metadata", "series"}
    changed = [field for field in sorted({*event, *old} - free) if event.get(field) != old.get(field)]
    problems = [Problem.of(field, Reason.INVALID, event.get(field), "field is immutable") for field in changed]
    return problems + _series_problems(event)


def _place(event: Object) -> str:
    """Where an event belongs: to the namespace of what it is about, or to the one for things without."""
    return (event.get("regarding") or {}).get("namespace") or "default"
