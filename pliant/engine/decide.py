"""The operator on one screen: what is wanted and what is seen, to what to do next."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.calls import creation_patience_left
from pliant.engine.case import Case, Turn
from pliant.engine.control import furnished
from pliant.engine.departure import lingering, patience_left
from pliant.engine.ending import (
    OVER,
    clearing,
    completed,
    end_delayed,
    failed,
    leftovers,
    ordered,
    outlived,
    outliving_left,
    timed_out,
)
from pliant.engine.idleness import idle_time_left, roused
from pliant.engine.limits import life_left, time_left
from pliant.engine.members import with_members
from pliant.engine.membership import staffing
from pliant.engine.plancare import farewell, upkeep
from pliant.engine.plans import given_up, planned, without_finished
from pliant.engine.restarting import restarted
from pliant.engine.rollup import at_the_end, has_changed, is_pressing, settles_in, summary
from pliant.engine.roster import abreast, call_the_roll
from pliant.engine.sizing import resized, sized, with_requests
from pliant.engine.suspending import evacuation, master_kept, resumed, suspended
from pliant.engine.timeline import accounted, noted
from pliant.engine.warning import warned
from pliant.model.actions import Action, Decision, DeleteJob, EmitEvent, JobStatus
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.observed import Seen
from pliant.model.state import EngineState, Phase, Verdict


def decide(job: Job, seen: Seen, framework: Framework, now: datetime) -> Decision:
    """Say what to do next. Reads only its arguments: same input, same answer."""
    if job.is_deleting:
        return Decision()  # owner references clean up
    job = furnished(job, seen.rules)
    state = abreast(job, seen, with_requests(job, seen.wishes, job.state or _first_memory(now), now))
    state = with_members(job, seen, without_finished(given_up(state, job, seen), seen))
    if state.phase.is_final:
        return _afterlife(job, seen, state, now)
    if state.verdict is not None:
        return _closing(job, seen, state, state.verdict, now)

    asked, job = job, sized(job, state)
    case = Case(job=job, asked=asked, seen=seen, state=state, roster=call_the_roll(job, seen, state, now), now=now)
    if (turn := _turn(case)) is not None:
        return _intent(turn, case)
    if state.phase is Phase.SUSPENDED:
        staffed, wait = staffing(master_kept(case), framework) if job.has_master else ((), None)
        return _progress(case, (*evacuation(job, seen, now), *staffed), soonest(wait, patience_left(seen, now)))
    actions, wait = staffing(case, framework)
    return _progress(case, actions, soonest(wait, _patience(case)))


def _turn(case: Case) -> Turn | None:
    """The first change of course that is due, in order of precedence."""
    if (turn := ordered(case) or completed(case) or suspended(case) or resized(case) or resumed(case)) is not None:
        return turn
    if case.state.phase is Phase.SUSPENDED and not case.job.has_master:
        return None  # nothing that happens to those who leave counts
    if (turn := restarted(case) or failed(case)) is not None or case.state.phase is Phase.SUSPENDED:
        return turn
    return timed_out(case) or planned(case) or outlived(case) or roused(case) or warned(case)


def _progress(case: Case, actions: tuple[Action, ...], wait: timedelta | None) -> Decision:
    """Act, and tell what changed: at once if it matters, else when it has settled."""
    before, after, plans = case.job.state, summary(case), upkeep(case)
    actions, wait = (*actions, *plans.actions), soonest(wait, plans.wait)
    statuses = {case.job.key: _status(after, case.seen, case.now)}
    if not has_changed(before, after):
        statuses = {}
    elif before is not None and not is_pressing(before, after) and (hold := settles_in(before, case.now)):
        statuses, wait = {}, soonest(hold, wait)
    return Decision(actions=actions, statuses=statuses, plans=plans.statuses, look_again=wait)


def _closing(job: Job, seen: Seen, state: EngineState, verdict: Verdict, now: datetime) -> Decision:
    """Clear away what is left; the end is announced once nothing is."""
    if any(leftovers(job, seen, state)):
        after = replace(state, message=end_delayed(verdict, lingering(seen, now)))
        statuses = {job.key: _status(after, seen, now)} if after.message != state.message else {}
        actions = clearing(job, seen, state, now)
        plans = farewell(seen, now).statuses
        return Decision(actions=actions, statuses=statuses, plans=plans, look_again=patience_left(seen, now))
    counts = at_the_end(state) if all(pod.phase in OVER for pod in seen.pods) else state.counts
    ended = replace(state, phase=verdict.phase, message=verdict.message, ended_at=now, counts=counts)
    return Decision(statuses={job.key: _status(ended, seen, now)})


def _afterlife(job: Job, seen: Seen, state: EngineState, now: datetime) -> Decision:
    """A job that has ended holds nothing, and goes itself when its time has come."""
    left = life_left(job, state, now)
    if left is not None and left <= timedelta(0):
        return Decision(actions=(DeleteJob(),))
    plans = farewell(seen, now)
    return Decision(
        actions=(*clearing(job, seen, state, now), *plans.actions),
        plans=plans.statuses,
        look_again=soonest(left, patience_left(seen, now), plans.wait),
    )


def _intent(turn: Turn, case: Case) -> Decision:
    """Remember first; the next pass acts on it."""
    event = EmitEvent(reason=turn.reason, message=turn.message, is_warning=turn.is_warning)
    return Decision(intent=_status(turn.state, case.seen, case.now), actions=(event,))


def _patience(case: Case) -> timedelta | None:
    """How long until some limit is reached though nothing happens."""
    return soonest(
        patience_left(case.seen, case.now),
        creation_patience_left(case),
        time_left(case.job, case.state, case.now),
        idle_time_left(case),
        outliving_left(case),
    )


def soonest(*waits: timedelta | None) -> timedelta | None:
    """The shortest of several waits; None if there is none."""
    return min((wait for wait in waits if wait is not None), default=None)


def _status(state: EngineState, seen: Seen, now: datetime) -> JobStatus:
    pods = tuple(sorted(seen.pods, key=lambda pod: pod.name))
    return JobStatus(state=replace(accounted(state, now), written_at=now), counts=state.counts, pods=pods)


def _first_memory(now: datetime) -> EngineState:
    return noted(EngineState(phase=Phase.PENDING, started_at=now), now, str(Phase.PENDING), "job accepted")
