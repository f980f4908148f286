"""Pods to phase, counts and message."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.case import Case
from pliant.engine.departure import lingering
from pliant.engine.failures import endings, witnessed
from pliant.engine.roster import Place, Roster, Standing
from pliant.engine.sizing import RESIZED
from pliant.engine.timeline import noted
from pliant.engine.wording import counted, failure_of, listing, troubles
from pliant.model.job import Group, Job, Steward
from pliant.model.labels import member_group
from pliant.model.state import EngineState, GroupCounts, GroupState, Member, Outcome, Phase, Request, Requester

SERVING = frozenset({"ps"})
"""Groups of those who never end by themselves."""
SETTLING = timedelta(seconds=1)
"""Counts that change faster are written once they settle: a thousand pods coming up are not a thousand writes."""


def summary(case: Case) -> EngineState:
    """The memory brought up to date with what is seen, before it is known whether that is worth a write."""
    job, roster, state, now = case.job, case.roster, case.state, case.now
    phase = _phase(roster, state)
    current = replace(
        witnessed(state, endings(state, roster.places), now),
        phase=phase,
        message=_message(case, phase),
        counts={group.name: _counts(group, roster.of(group), state) for group in job.groups},
        groups={**state.groups, **_with_endings(job, roster, state)},
        warned=tuple(warning for warning in state.warned if warning in job.warnings),
    )
    current = replace(current, idle_from=(state.idle_from or now) if is_work_done(job, roster, current) else None)
    if phase is Phase.RUNNING and state.phase is not Phase.RUNNING:
        current = noted(current, now, str(phase), current.message)
        current = replace(current, running_at=state.running_at or now, clock_from=state.clock_from or now)
    return current


def is_work_done(job: Job, roster: Roster, state: EngineState) -> bool:
    """Whether members whom a master looks after have all done their work, those who serve others apart."""
    working = [group for group in job.groups if group.steward is Steward.MASTER and group.name not in SERVING]
    if not any(state.group(group.name).finished for group in working):
        return False
    return all(place.standing is Standing.SUCCEEDED for place in roster.places if place.rank.group in working)


def at_the_end(state: EngineState) -> dict[str, GroupCounts]:
    """The counts of a job that holds nothing any more: only ends are left to count."""
    return {
        name: replace(counts, pending=0, scheduled=0, active=0, restarting=0)
        for name, counts in state.counts.items()
    }


def is_pressing(before: EngineState | None, after: EngineState) -> bool:
    """Whether a change must be told at once rather than when things have settled."""
    if before is None or _requests(before) != _requests(after):
        return True  # which of two requests came later is known only if the first is written before the second
    if _lists(before) != _lists(after) or before.plans != after.plans:
        return True  # who was there once is not made again
    return before.phase is not after.phase and after.phase is not Phase.CREATING


def has_changed(before: EngineState | None, after: EngineState) -> bool:
    """Whether there is anything to tell at all."""
    return before is None or replace(before, written_at=None) != replace(after, written_at=None)


def settles_in(before: EngineState, now: datetime) -> timedelta:
    """How long to hold back a change that is not pressing."""
    # By a clock that was put back, or another operator's, it may lie ahead: that must not silence the job.
    if before.written_at is None or before.written_at > now:
        return timedelta(0)
    return max(before.written_at + SETTLING - now, timedelta(0))


def _requests(state: EngineState) -> dict[str, dict[Requester, Request]]:
    return {name: memory.requests for name, memory in state.groups.items() if memory.requests}


def _lists(state: EngineState) -> dict[str, dict[int, Member]]:
    return {name: memory.members for name, memory in state.groups.items() if memory.members}


def _phase(roster: Roster, state: EngineState) -> Phase:
    if state.phase is Phase.SUSPENDED:
        return state.phase
    # Of a job with a master nothing more can be told than whether that runs: who else there is to be, it decides.
    standings = [place.standing for place in roster.steady()]
    if all(standing.is_up for standing in standings):
        return Phase.RUNNING
    if state.phase in (Phase.RUNNING, Phase.RESTARTING):
        return state.phase
    is_unscheduled = any(standing in (Standing.ABSENT, Standing.PENDING) for standing in standings)
    return Phase.PENDING if is_unscheduled and state.phase is Phase.PENDING else Phase.CREATING


def _message(case: Case, phase: Phase) -> str:
    late = lingering(case.seen, case.now)
    if phase is Phase.SUSPENDED:
        control = {member_group(group.name) for group in case.job.groups if group.is_control}
        left = sum(pod.group not in control for pod in case.seen.pods)
        told = [f"suspended; {counted(left, 'pod')} still to go" if left else "suspended"]
        return ": ".join([*told, listing(late)]) if late else told[0]
    places = case.roster.places
    wanted = [place for place in places if not place.standing.is_up]
    told = [f"waits for pods that should be gone: {listing(late)}"] if late else []
    told += [f"cannot create {name}: {why}" for name, why in sorted(case.seen.refusals.items())]
    # A container that its node starts again and again is in trouble, though its pod counts as running.
    told += troubles(place for place in places if place.outcome is None) + _worries(case.roster)
    if told:
        return listing(told)
    if phase is Phase.RESTARTING:
        return _why_restarting(case.state)
    if case.job.has_master and not any(place.rank.group.is_control for place in wanted):
        return _message_of_those_led(case)
    if not wanted:
        return _message_of_those_up(case.roster)
    waiting = listing([place.title for place in wanted])
    return f"{counted(len(wanted), 'member')} of {len(places)} not up yet: {waiting}"


def _why_restarting(state: EngineState) -> str:
    """What led to the restart, also when the message has told of other troubles meanwhile."""
    reasons = (moment.why for moment in reversed(state.timeline) if moment.what in (Phase.RESTARTING, RESIZED))
    return next(reasons, state.message)


def _worries(roster: Roster) -> list[str]:
    """Nodes at fault under members that are not given up yet."""
    shaky = [place.pod for place in roster.places if place.pod is not None and place.standing is Standing.RUNNING]
    return list(dict.fromkeys(f"node {pod.node} {pod.fault.what}" for pod in shaky if pod.fault is not None))


def _message_of_those_led(case: Case) -> str:
    """Who is there of those whom a master looks after, and of how many, as far as that is known."""
    told = []
    for group in (group for group in case.job.groups if group.steward is Steward.MASTER):
        places = case.roster.of(group)
        running = sum(place.standing is Standing.RUNNING for place in places)
        ended = sum(place.outcome is not None for place in places)
        wanted = max(case.state.group(group.name).size or 0, len(places) - ended)
        if wanted or ended:
            told.append(f"{running} of {wanted} {group.name}" + (f" and {ended} ended" if ended else ""))
    return f"the master runs, with {listing(told)}" if told else "the master runs, and has asked for nobody yet"


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
    absent = tally[Standing.ABSENT] if state.phase is not Phase.SUSPENDED else 0
    is_restarting = state.phase is Phase.RESTARTING
    returning = tally[Standing.STALE] + tally[Standing.LEAVING] + tally[Standing.DISRUPTED]
    return GroupCounts(
        size=group.size if group.steward is Steward.ENGINE else len(places),
        pending=tally[Standing.PENDING] + (0 if is_restarting else absent),
        scheduled=tally[Standing.SCHEDULED],
        active=tally[Standing.RUNNING],
        succeeded=tally[Standing.SUCCEEDED],
        restarting=returning + (absent if is_restarting else 0),
        failed=tally[Standing.FAILED] + tally[Standing.LOST],
    )


def _with_endings(job: Job, roster: Roster, state: EngineState) -> dict[str, GroupState]:
    """Remember who has ended, so that a pod object lost afterwards does not train again."""
    endings: dict[str, GroupState] = {}
    for group in job.groups:
        memory, places = state.group(group.name), roster.of(group)
        if group.steward is Steward.MASTER:
            endings |= _with_work_done(group.name, memory, places)
            continue
        seen = {place.rank.index: _OUTCOMES[place.standing] for place in places if place.standing in _OUTCOMES}
        # Only restarts and resizes forget: a pod from before a suspension hides an end that still stands.
        ended = memory.finished | seen
        stuck_from = None if all(place.standing.is_up for place in places) else memory.stuck_from
        if (ended, stuck_from) != (memory.finished, memory.stuck_from):
            endings[group.name] = replace(memory, finished=ended, stuck_from=stuck_from)
    return endings


def _with_work_done(name: str, memory: GroupState, places: tuple[Place, ...]) -> dict[str, GroupState]:
    """Who has done its work, by id: some masters delete the pods of those, and might forget them themselves."""
    done = {place.rank.index: Outcome.SUCCEEDED for place in places if place.standing is Standing.SUCCEEDED}
    finished = memory.finished | done
    return {name: replace(memory, finished=finished)} if finished != memory.finished else {}


_OUTCOMES = {Standing.SUCCEEDED: Outcome.SUCCEEDED, Standing.FAILED: Outcome.FAILED}
"""Ends that last; a member lost with its node may turn up again."""
