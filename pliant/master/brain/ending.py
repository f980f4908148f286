"""When the job is over as far as its members are concerned."""

from __future__ import annotations

from pliant.master.brain import words
from pliant.master.brain.case import SPEAKERS, WORKER, Case, place_of
from pliant.master.model import End


def ended(case: Case) -> End | None:
    """How the job ended, if it did."""
    for text, reason in case.memory.dropped.items():
        place = place_of(text)
        if case.is_critical(place):
            return End(has_succeeded=False, reason=reason)
    places = [place for place in case.places if place.type in SPEAKERS]
    well = [place for place in places if str(place) in case.memory.done]
    if places and len(well) == len(places):
        names = [f"{place.type}-{case.memory.members[str(place)]}" for place in well]
        return End(has_succeeded=True, reason=f"{words.several(names)} finished")
    critical = [place for place in places if case.is_critical(place)]
    if case.picture.is_work_done and critical and all(place in well for place in critical):
        return End(has_succeeded=True, reason="all work is done, and nobody who matters is still at it")
    return _too_few(case)


def _too_few(case: Case) -> End | None:
    """Whether so many workers are beyond recovery that fewer are left than the job needs."""
    lost = {text: reason for text, reason in case.memory.dropped.items() if place_of(text).type == WORKER}
    left = sum(place.type == WORKER for place in case.places)
    least = max(case.role(WORKER).least, 1)
    if not lost or left >= least:
        return None
    return End(has_succeeded=False, reason=next(iter(lost.values())))
