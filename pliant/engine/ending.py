"""When a job is over: end policies of groups and of the job, orders from outside, and what happens then."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.calls import is_restartable, stuck_for_good
from pliant.engine.case import Case, Turn, turned
from pliant.engine.departure import departures
from pliant.engine.failures import blamed
from pliant.engine.limits import overrun
from pliant.engine.restarting import is_within_budget
from pliant.engine.rollup import summary
from pliant.engine.roster import Place, Standing
from pliant.engine.voting import completion_reached, deciding, failure_reached, nobody_is_left
from pliant.engine.wording import counted, failure_of, listing
from pliant.model.actions import Action, DeleteService
from pliant.model.job import CleanPolicy, Job
from pliant.model.labels import service_of
from pliant.model.observed import ObservedPod, ObservedService, PodPhase, Seen
from pliant.model.state import Cause, EngineState, Phase, Verdict

MASTERS_GRACE = timedelta(minutes=2)
"""DLRover's masters look every 30 seconds whether their job is done."""
ALWAYS_CLEARED = frozenset({Phase.TIMEOUT, Phase.PREEMPTED, Phase.NODE_FAIL})
"""Ends that leave no pods, whatever the job's own policy says."""
OVER = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def ordered(case: Case) -> Turn | None:
    """End the job because somebody outside says so."""
    order = case.job.order
    if order is None:
        return None
    return _sentenced(case, Verdict(phase=order.phase, message=order.message, at=case.now, must_clear=True))


def completed(case: Case) -> Turn | None:
    """End the job because its work is done, if it is."""
    if not completion_reached(case.job, case.roster):
        return None
    return _sentenced(case, Verdict(phase=Phase.SUCCEED, message="training completed", at=case.now))


def failed(case: Case) -> Turn | None:
    """End the job because it has failed or can no longer complete, if so."""
    verdict = _failure(case) or _creation_failure(case) or _disruption(case)
    return None if verdict is None else _sentenced(case, verdict)


def timed_out(case: Case) -> Turn | None:
    """End the job because its time is up, if it is."""
    verdict = overrun(case.job, case.state, case.now)
    return None if verdict is None else _sentenced(case, verdict)


def outlived(case: Case) -> Turn | None:
    """End a job whose master does not, although all work is done: it waits for somebody who was sent away."""
    since = case.state.idle_from
    if since is None or case.now < since + MASTERS_GRACE:
        return None
    message = "every member has done its work; the master waits for others, in vain"
    return _sentenced(case, Verdict(phase=Phase.SUCCEED, message=message, at=case.now))


def outliving_left(case: Case) -> timedelta | None:
    """How long a master whose members are done may still take."""
    since = case.state.idle_from
    return max(since + MASTERS_GRACE - case.now, timedelta(0)) if since is not None else None


def clearing(job: Job, seen: Seen, state: EngineState, now: datetime) -> tuple[Action, ...]:
    """Delete all that a finished job still holds; what is leaving already is left alone."""
    pods, services = leftovers(job, seen, state)
    return (
        *departures(seen, pods, "the job has ended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_leaving),
    )


def leftovers(job: Job, seen: Seen, state: EngineState) -> tuple[list[ObservedPod], list[ObservedService]]:
    """The pods and services of a finished job that must go, by name."""
    match _clean_policy(job, state):
        case CleanPolicy.NONE:
            return [], []
        case CleanPolicy.RUNNING:
            kept = {pod.name for pod in seen.pods if pod.phase in OVER and not pod.is_leaving}
        case CleanPolicy.ALL:
            kept = set()
    named = {service_of(job.naming, name) for name in kept}
    pods = [pod for pod in seen.pods if pod.name not in kept]
    services = [service for service in seen.services.values() if service.name not in named]
    return sorted(pods, key=lambda pod: pod.name), sorted(services, key=lambda service: service.name)


def end_delayed(verdict: Verdict, late: list[str]) -> str:
    """The message of a job on its way out: why it ends, and whose leaving it waits for too long."""
    return f"{verdict.message}; waits for pods that should be gone: {listing(late)}" if late else verdict.message


def _clean_policy(job: Job, state: EngineState) -> CleanPolicy:
    """What is to go: some ends leave nothing, whatever the job says."""
    must_clear = state.verdict is not None and state.verdict.must_clear
    return CleanPolicy.ALL if must_clear or state.phase in ALWAYS_CLEARED else job.clean


def _sentenced(case: Case, verdict: Verdict) -> Turn:
    """The end is decided; it is announced once nothing is left, or at once if things are to be kept."""
    is_kept = case.job.clean is CleanPolicy.NONE and not verdict.must_clear
    after = replace(_with_cause(case, verdict), verdict=verdict, message=verdict.message)
    after = (
        replace(after, phase=verdict.phase, ended_at=verdict.at)
        if is_kept
        else replace(after, phase=Phase.TERMINATING)
    )
    is_warning = verdict.phase is not Phase.SUCCEED
    return turned(after, verdict.at, str(verdict.phase), verdict.message, is_warning=is_warning)


def _with_cause(case: Case, verdict: Verdict) -> EngineState:
    """The memory brought up to date, with the failure that led to this end if one did."""
    present = summary(case)
    if verdict.phase in (Phase.FAILED, Phase.NODE_FAIL) and case.job.order is None:
        return blamed(present, list(case.roster.failed()) or stuck_for_good(case), case.now)
    # Whatever was mended before has not led to this end; what still was being mended may have.
    is_mending = case.state.phase is Phase.RESTARTING and verdict.phase is not Phase.SUCCEED
    return present if is_mending else replace(present, first_cause=None)


def _failure(case: Case) -> Verdict | None:
    places = _by_time(case.roster.failed())
    causes = [_cause(place, case) for place in places]
    if failure_reached(case.job, case.roster):
        by_node = _by_time(deciding(case.job, case.roster))[0].cause is Cause.NODE
        phase = Phase.NODE_FAIL if by_node else Phase.FAILED
        return Verdict(phase=phase, message=listing(causes), at=case.now, must_clear=by_node)
    if not nobody_is_left(case.job, case.roster):
        return None
    if not causes:
        return Verdict(phase=Phase.SUCCEED, message="every member ended well", at=case.now)
    message = f"no end policy was met and nothing is left to run: {listing(causes)}"
    return Verdict(phase=Phase.FAILED, message=message, at=case.now)


def _creation_failure(case: Case) -> Verdict | None:
    """Containers that could not be created, retried as long as was allowed: the end, where that is the rule."""
    if not case.rules.creating_fails or not (stuck := stuck_for_good(case)):
        return None
    message = listing([failure_of(place) for place in stuck])
    return Verdict(phase=Phase.FAILED, message=message, at=case.now)


def _disruption(case: Case) -> Verdict | None:
    """The end of a job some member of which was taken away, and may not be replaced any more."""
    for place in case.roster.steady():
        group = place.rank.group
        is_counted = place.standing in (Standing.LEAVING, Standing.DISRUPTED) and group.restart.counts_disruptions
        if is_counted and not is_within_budget(group, case.state.group(group.name)):
            limit = counted(group.restart.limit or 0, "replacement")
            message = f"{failure_of(place)}, and {group.name} is allowed {limit}"
            return Verdict(phase=Phase.FAILED, message=message, at=case.now)
    return None


def _cause(place: Place, case: Case) -> str:
    """What happened, and why it was not mended."""
    told, group, most = failure_of(place), place.rank.group, case.job.restart_limit
    if not is_restartable(case.job, place):
        return told
    quotes = place.pod is not None and place.pod.exit is not None and place.pod.exit.message
    joint = ";" if quotes else " and"
    if limit := group.restart.limit:
        return f"{told}{joint} {group.name} has spent its {counted(limit, 'restart')}"
    return f"{told}{joint} the job has spent its {counted(most, 'restart')}" if most else told


def _by_time(places: Iterable[Place]) -> list[Place]:
    """Earliest end first, so that the first cause is named first."""

    def ended(place: Place) -> str:
        pod = place.pod
        at = pod and (pod.finished_at or (pod.fault.since if pod.fault else None))
        return at.isoformat() if at else "~"

    return sorted(places, key=ended)
