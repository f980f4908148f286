"""The operator on one screen: what is wanted and what is seen, to what to do next."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.ending import clearing, completion, failure, sentenced
from pliant.engine.membership import staffing
from pliant.engine.restarting import restarted
from pliant.engine.rollup import has_changed, is_pressing, settles_in, summary
from pliant.engine.roster import call_the_roll
from pliant.engine.timeline import noted
from pliant.model.actions import Action, Decision, EmitEvent, JobStatus
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.observed import Seen
from pliant.model.state import EngineState, Phase, Verdict


def decide(job: Job, seen: Seen, framework: Framework, now: datetime) -> Decision:
    """Say what to do next. Reads only its arguments: same input, same answer."""
    if job.is_deleting:
        return Decision()  # owner references clean up
    state = job.state or _first_memory(now)
    if state.phase.is_final:
        return Decision(actions=clearing(job, seen))
    if state.verdict is not None:
        return _closing(job, seen, state, state.verdict, now)

    roster = call_the_roll(job, seen, state)
    if (done := completion(job, roster, now)) is not None:
        return _intent(sentenced(job, summary(job, seen, roster, state, now), done), now)
    if (again := restarted(job, roster, state, now)) is not None:
        return _intent(again, now)
    if (lost := failure(job, roster, state, now)) is not None:
        return _intent(sentenced(job, summary(job, seen, roster, state, now), lost), now)

    actions, wait = staffing(job, seen, state, roster, framework, now)
    return _progress(job, summary(job, seen, roster, state, now), actions, wait, now)


def _progress(
    job: Job, after: EngineState, actions: tuple[Action, ...], wait: timedelta | None, now: datetime
) -> Decision:
    """Act, and tell what changed: at once if it matters, else when it has settled."""
    if not has_changed(job.state, after):
        return Decision(actions=actions, look_again=wait)
    if job.state is not None and not is_pressing(job.state, after) and (hold := settles_in(job.state, now)):
        return Decision(actions=actions, look_again=min(hold, wait or hold))
    return Decision(actions=actions, statuses={job.key: _status(after, now)}, look_again=wait)


def _closing(job: Job, seen: Seen, state: EngineState, verdict: Verdict, now: datetime) -> Decision:
    """Clear away what is left; the end is announced once nothing is."""
    if seen.pods or seen.services:
        return Decision(actions=clearing(job, seen))
    ended = replace(state, phase=verdict.phase, ended_at=now)
    return Decision(statuses={job.key: _status(ended, now)})


def _intent(state: EngineState, now: datetime) -> Decision:
    """Remember first; the next pass acts on it."""
    phase = state.verdict.phase if state.verdict else state.phase
    event = EmitEvent(reason=str(phase), message=state.message, is_warning=phase is not Phase.SUCCEED)
    return Decision(intent=_status(state, now), actions=(event,))


def _status(state: EngineState, now: datetime) -> JobStatus:
    return JobStatus(state=replace(state, written_at=now), counts=state.counts)


def _first_memory(now: datetime) -> EngineState:
    return noted(EngineState(phase=Phase.PENDING, started_at=now), now, str(Phase.PENDING), "job accepted")
