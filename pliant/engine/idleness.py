"""A master that never asked for anybody: its first plan was lost, and it does not ask twice."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned
from pliant.engine.members import OWN_MASTER
from pliant.engine.roster import Place, Standing
from pliant.model.job import Steward

PATIENCE = timedelta(minutes=3)
"""DLRover's masters ask within seconds, and give up after fifteen if the API server would not take it."""
MOST = 3
"""How often a master is made anew for that: one that still asks for nobody may have its reasons."""


def roused(case: Case) -> Turn | None:
    """Make a master anew that should have asked for members by now; ours asks until it is heard."""
    place = _idle_master(case)
    since = _since(place)
    if place is None or since is None or case.now < since + PATIENCE:
        return None
    memory = case.state.group(place.rank.group.name)
    attempt = memory.attempt + 1
    after = replace(
        memory,
        attempt=attempt,
        index_floors={**memory.index_floors, place.rank.index: attempt},
        roused=memory.roused + 1,
    )
    state = replace(case.state, groups={**case.state.groups, place.rank.group.name: after})
    return turned(state, case.now, "MasterIdle", "the master has asked for nobody yet: it is started again")


def idle_time_left(case: Case) -> timedelta | None:
    """How long until a master is taken to be idle; None if it is not."""
    since = _since(_idle_master(case))
    return max(since + PATIENCE - case.now, timedelta(0)) if since is not None else None


def _since(place: Place | None) -> datetime | None:
    return place.pod.started_at if place is not None and place.pod is not None else None


def _idle_master(case: Case) -> Place | None:
    """The place of a foreign master that runs alone and has never done otherwise."""
    job = case.job
    if not job.has_master or job.options.get(OWN_MASTER) or job.is_suspended or case.seen.plans:
        return None
    if any(case.state.group(group.name).next_id for group in job.groups if group.steward is Steward.MASTER):
        return None
    masters = (place for place in case.roster.places if place.rank.group.is_control)
    found = next((place for place in masters if place.standing is Standing.RUNNING), None)
    if found is None or case.state.group(found.rank.group.name).roused >= MOST:
        return None
    return found
