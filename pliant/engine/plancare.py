"""What is told about plans, and when they are cleared away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pliant.engine.case import Case
from pliant.engine.drafting import Draft, drafted
from pliant.engine.members import OWN_MASTER
from pliant.engine.plans import COURTESY, is_busy, is_due, next_plan, watched
from pliant.engine.roster import Standing
from pliant.engine.wording import listing
from pliant.model.actions import Action, DeletePlan
from pliant.model.observed import Seen
from pliant.model.plans import Plan, PlanPhase, PlanStatus
from pliant.model.state import Scaling


class _Turn(NamedTuple):
    plan: Plan
    draft: Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What there is to do about plans beside carrying them out."""

    actions: tuple[Action, ...] = ()
    statuses: Mapping[str, PlanStatus] = field(default_factory=dict)
    wait: timedelta | None = None


def upkeep(case: Case) -> Upkeep:
    """What to tell about plans, and which of them have had their day."""
    if not case.seen.plans:
        return Upkeep()
    turn = _turn_of(case)
    gone = {plan.uid: plan for plan in (*_void(case, turn), *_outworn(case.seen, case.now))}
    statuses = {
        plan.key.name: news
        for plan in case.seen.plans
        if plan.uid not in gone and (news := _news(case, plan, turn)) is not None
    }
    waits = [*_ages(case.seen, case.now), *_patience(case)]
    return Upkeep(
        actions=tuple(DeletePlan(name=plan.key.name, uid=plan.uid) for plan in gone.values()),
        statuses=statuses,
        wait=min((wait for wait in waits if wait > timedelta(0)), default=None),
    )


def farewell(seen: Seen, now: datetime) -> Upkeep:
    """What becomes of the plans of a job that has ended."""
    over = PlanStatus(phase=PlanPhase.FAILED, message="the job has ended", at=now)
    open_plans = [plan for plan in seen.plans if plan.phase is None or not plan.phase.is_final]
    waits = [wait for wait in _ages(seen, now) if wait > timedelta(0)]
    return Upkeep(
        actions=tuple(DeletePlan(name=plan.key.name, uid=plan.uid) for plan in _outworn(seen, now)),
        statuses={plan.key.name: over for plan in open_plans},
        wait=min(waits, default=None),
    )


def _turn_of(case: Case) -> _Turn | None:
    """Whose turn it is, and what would come of it; None while nobody has one."""
    if case.job.is_suspended or is_busy(case) or (plan := next_plan(case)) is None:
        return None
    return _Turn(plan, drafted(case, plan))


def _news(case: Case, plan: Plan, turn: _Turn | None) -> PlanStatus | None:
    """The status that a plan lacks; None if it tells the truth."""
    if plan.phase is not None and plan.phase.is_final:
        return None
    phase, message = _standing_of(case, plan, turn)
    if (phase, message) == (plan.phase, plan.said):
        return None
    return PlanStatus(phase=phase, message=message, at=case.now)


def _standing_of(case: Case, plan: Plan, turn: _Turn | None) -> tuple[PlanPhase, str]:
    scaling = case.state.plans.get(plan.uid)
    if scaling is not None:
        return _progress_of(case, plan, scaling)
    if plan.problem:
        return PlanPhase.FAILED, plan.problem
    if plan.phase is None:
        return PlanPhase.CREATED, plan.reason
    if plan.is_manual and plan.is_taken and not case.job.options.get(OWN_MASTER):
        return PlanPhase.SUCCEEDED, "the job's master has taken it, and answers with plans or pods of its own"
    if case.job.is_suspended:
        return PlanPhase.PENDING, "held: the job is suspended"
    if not is_due(case, plan):
        return PlanPhase.PENDING, "waits a moment for the job's master to take it"
    if turn is None or turn.plan is not plan:
        return PlanPhase.PENDING, "waits for an earlier plan"
    if turn.draft.problem:
        return PlanPhase.FAILED, turn.draft.problem
    if plan.phase is PlanPhase.PENDING and not turn.draft.changes:
        return PlanPhase.SUCCEEDED, "there was nothing to change"
    return PlanPhase.PENDING, ""


def _progress_of(case: Case, plan: Plan, scaling: Scaling) -> tuple[PlanPhase, str]:
    """How a plan fares that is being carried out."""
    if plan.phase in (None, PlanPhase.CREATED):
        return PlanPhase.PENDING, ""  # each state is shown, one after the other
    if plan.phase is PlanPhase.PENDING:
        return PlanPhase.SCALING, scaling.why
    pods, removals = frozenset(scaling.pods), frozenset(scaling.removals)  # they may be thousands
    missing = [place.name for place in watched(case) if place.standing is Standing.ABSENT and place.name in pods]
    heirs = [
        place.title
        for place in watched(case)
        if place.rank.member is not None and place.rank.member.replaces is not None and place.name in pods
    ]
    staying = [pod.name for pod in case.seen.pods if pod.uid in removals and not pod.is_leaving]
    if not missing and not heirs and not staying:
        return PlanPhase.SUCCEEDED, scaling.why
    refused = [
        f"cannot create {name}: {case.seen.refusals[name]}" for name in missing if name in case.seen.refusals
    ]
    waits = f"waits until {listing(heirs)} runs" if heirs else scaling.why
    said = listing(refused) if refused else waits
    if case.now >= scaling.at + case.rules.plan_patience:
        return PlanPhase.FAILED, said if refused or heirs else f"not done within {case.rules.plan_patience}"
    return PlanPhase.SCALING, said


def _void(case: Case, turn: _Turn | None) -> Iterator[Plan]:
    """Plans of masters that change nothing, or whose master is gone: others must be able to use their names."""
    since, is_first = _master_since(case)
    for plan in case.seen.plans:
        if plan.is_manual or plan.uid in case.state.plans:
            continue
        # What was asked for before the first master began, somebody has written in its name.
        is_old = since is not None and plan.created_at < since
        is_of_another = is_old and not (is_first and (plan.phase is None or not plan.phase.is_final))
        says_nothing = not (
            plan.groups or plan.create or plan.remove or plan.migrate or plan.hosts or plan.problem
        )
        changes_nothing = (
            turn is not None and turn.plan is plan and not turn.draft.problem and not turn.draft.changes
        )
        if is_of_another or says_nothing or changes_nothing:
            yield plan


def _master_since(case: Case) -> tuple[datetime | None, bool]:
    """When the present master began, and whether there was none before it."""
    places = [place for place in case.roster.places if place.rank.group.is_control and place.pod is not None]
    begun = [
        place.pod.started_at for place in places if place.pod is not None and place.pod.started_at is not None
    ]
    return max(begun, default=None), all(place.rank.attempt == 0 for place in places)


def _outworn(seen: Seen, now: datetime) -> Iterator[Plan]:
    """Finished plans of masters, beyond what is kept."""
    done = [plan for plan in seen.plans if plan.phase is not None and plan.phase.is_final and not plan.is_manual]
    done = sorted(done, key=lambda plan: (plan.finished_at or plan.created_at, plan.key.name), reverse=True)
    for number, plan in enumerate(done):
        age = now - (plan.finished_at or plan.created_at)
        if number >= seen.rules.plan_history or age >= seen.rules.plan_life:
            yield plan


def _ages(seen: Seen, now: datetime) -> Iterator[timedelta]:
    """How long until finished plans have had their day."""
    for plan in seen.plans:
        if plan.finished_at is not None and not plan.is_manual:
            yield plan.finished_at + seen.rules.plan_life - now


def _patience(case: Case) -> Iterator[timedelta]:
    """How long until a plan is given up, or taken though its master might have."""
    for scaling in case.state.plans.values():
        yield scaling.at + case.rules.plan_patience - case.now
    for plan in case.seen.plans:
        if plan.is_manual and plan.phase is PlanPhase.PENDING:
            yield plan.created_at + COURTESY - case.now
