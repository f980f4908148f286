"""Pods to phase, counts and message."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.roster import Place, Roster, Standing
from pliant.engine.timeline import noted
from pliant.engine.wording import counted, failure_of, listing, troubles
from pliant.model.job import Group, Job
from pliant.model.observed import Seen
from pliant.model.state import EngineState, GroupCounts, GroupState, Phase

SETTLING = timedelta(seconds=1)
"""Counts that change faster are written once they settle: a thousand pods coming up are not a thousand writes."""


def summary(job: Job, seen: Seen, roster: Roster, state: EngineState, now: datetime) -> EngineState:
    """The memory brought up to date with what is seen, before it is known whether that is worth a write."""
    phase = _phase(roster, state)
    current = replace(
        state,
        phase=phase,
        message=_message(job, seen, roster, state, phase),
        counts={group.name: _counts(group, roster.of(group), state) for group in job.groups},
        groups={**state.groups, **_with_endings(job, roster, state)},
    )
    if phase is Phase.RUNNING and state.phase is not Phase.RUNNING:
        current = noted(current, now, str(phase), current.message)
        current = replace(current, running_at=state.running_at or now)
    return current


def is_pressing(before: EngineState | None, after: EngineState) -> bool:
    """Whether a change must be told at once rather than when things have settled."""
    return before is None or (before.phase is not after.phase and after.phase is not Phase.CREATING)


def has_changed(before: EngineState | None, after: EngineState) -> bool:
    """Whether there is anything to tell at all."""
    return before is None or replace(before, written_at=None) != replace(after, written_at=None)


def settles_in(before: EngineState, now: datetime) -> timedelta:
    """How long to hold back a change that is not pressing."""
    if before.written_at is None:
        return timedelta(0)
    return max(before.written_at + SETTLING - now, timedelta(0))


def _phase(roster: Roster, state: EngineState) -> Phase:
    standings = [place.standing for place in roster.places]
    if all(standing.is_up for standing in standings):
        return Phase.RUNNING
    if state.phase in (Phase.RUNNING, Phase.RESTARTING):
        return state.phase
    is_unscheduled = any(standing in (Standing.ABSENT, Standing.PENDING) for standing in standings)
    return Phase.PENDING if is_unscheduled and state.phase is Phase.PENDING else Phase.CREATING


def _message(job: Job, seen: Seen, roster: Roster, state: EngineState, phase: Phase) -> str:
    wanted = [place for place in roster.places if not place.standing.is_up]
    told = [f"cannot create {name}: {why}" for name, why in sorted(seen.refusals.items())] + troubles(wanted)
    if told:
        return listing(told)
    if phase is Phase.RESTARTING:
        return state.message
    if not wanted:
        return _message_of_those_up(roster)
    waiting = listing([place.title for place in wanted])
    return f"{counted(len(wanted), 'member')} of {len(roster.places)} not up yet: {waiting}"


def _message_of_those_up(roster: Roster) -> str:
    if not roster.places:
        return "the job has no members"
    # A job that may lose members must not lose them in silence.
    if lost := [failure_of(place) for place in roster.failed()]:
        return f"goes on although {listing(lost)}"
    ended = sum(place.outcome is not None for place in roster.places)
    running = counted(len(roster.places) - ended, "member")
    return f"{running} running, {ended} ended" if ended else "every member runs"


def _counts(group: Group, places: tuple[Place, ...], state: EngineState) -> GroupCounts:
    tally = Counter(place.standing for place in places)
    returning = tally[Standing.STALE] + tally[Standing.LEAVING]
    is_restarting = state.phase is Phase.RESTARTING
    absent = tally[Standing.ABSENT]
    return GroupCounts(
        size=group.size,
        pending=tally[Standing.PENDING] + (0 if is_restarting else absent),
        scheduled=tally[Standing.SCHEDULED],
        active=tally[Standing.RUNNING],
        succeeded=tally[Standing.SUCCEEDED],
        restarting=returning + (absent if is_restarting else 0),
        failed=tally[Standing.FAILED],
    )


def _with_endings(job: Job, roster: Roster, state: EngineState) -> dict[str, GroupState]:
    """Remember who has ended, so that a pod object lost afterwards does not train again."""
    endings: dict[str, GroupState] = {}
    for group in job.groups:
        memory = state.group(group.name)
        ended = {place.rank.index: place.outcome for place in roster.of(group) if place.outcome is not None}
        if ended != memory.finished:
            endings[group.name] = replace(memory, finished=ended)
    return endings
