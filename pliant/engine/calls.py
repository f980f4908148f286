"""Who calls for a restart: members that failed, were lost, cannot be created, or were taken away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pliant.engine.case import Case
from pliant.engine.roster import Place, Roster, Standing
from pliant.engine.wording import failure_of
from pliant.model.job import Job, RestartPolicy, RestartScope
from pliant.model.observed import Stuck
from pliant.model.rules import Rules
from pliant.model.state import Cause, GroupState

_WIDEST_FIRST = (RestartScope.ALL, RestartScope.REPLICA, RestartScope.POD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A reason to restart, at one place."""

    place: Place
    cause: Cause
    scope: RestartScope

    @property
    def is_free(self) -> bool:
        """Whether it is charged to nobody."""
        return self.cause is Cause.DISRUPTION and not self.place.rank.group.restart.counts_disruptions

    def __str__(self) -> str:
        return failure_of(self.place)


def calls(case: Case) -> list[Call]:
    """Every call at present, those that reach farthest first."""
    every = [*_failures(case.job, case.roster), *_dead_ends(case), *_disruptions(case.roster)]
    return sorted(every, key=lambda call: _WIDEST_FIRST.index(call.scope))


def is_overdue(stuck: Stuck | None, rules: Rules, now: datetime) -> bool:
    """Whether a container has failed to be created for too long."""
    return stuck is not None and now >= stuck.since + rules.creating_duration


def creation_patience_left(case: Case) -> timedelta | None:
    """How long until the first container that cannot be created has failed for too long."""
    ends = (
        place.pod.stuck.since + case.rules.creating_duration
        for place in case.roster.steady()
        if place.standing is Standing.SCHEDULED and place.pod is not None and place.pod.stuck is not None
    )
    return min((end - case.now for end in ends if end > case.now), default=None)


def stuck_for_good(case: Case) -> list[Place]:
    """Members whose containers cannot be created, although there was patience."""
    return [
        place
        for place in case.roster.steady()
        if place.standing is Standing.SCHEDULED
        and place.pod is not None
        and is_overdue(place.pod.stuck, case.rules, case.now)
    ]


def _failures(job: Job, roster: Roster) -> Iterator[Call]:
    for place in roster.failed():
        if place.pod is not None and is_restartable(job, place):
            yield Call(place=place, cause=place.cause, scope=place.rank.group.restart.scope)


def is_restartable(job: Job, place: Place) -> bool:
    """Whether a member ended in a way that its group restarts on, as long as there is a budget."""
    end = place.pod.exit if place.pod else None
    is_listed = end is not None and end.code in job.restart_exit_codes
    if end is not None and end.code in place.rank.group.restart.final_codes:
        return False
    match place.rank.group.restart.policy:
        case RestartPolicy.ALWAYS:
            return True
        case RestartPolicy.ON_FAILURE:
            return place.standing is Standing.FAILED
        case RestartPolicy.ON_NODE_FAIL:
            return place.cause is Cause.NODE
        case RestartPolicy.EXIT_CODE:
            return is_listed
        case RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE:
            return is_listed or place.cause is Cause.NODE
        case RestartPolicy.NEVER | None:
            return False


def _dead_ends(case: Case) -> Iterator[Call]:
    """Pods to be made anew elsewhere: only that place is concerned, whatever the group's scope."""
    for place in stuck_for_good(case):
        memory = case.state.group(place.rank.group.name)
        if _may_try_again(place, memory, case.rules, case.now):
            yield Call(place=place, cause=Cause.CREATION, scope=RestartScope.POD)


def _may_try_again(place: Place, memory: GroupState, rules: Rules, now: datetime) -> bool:
    stuck = place.pod.stuck if place.pod else None
    return stuck is not None and now - (memory.stuck_from or stuck.since) < rules.creating_restart


def _disruptions(roster: Roster) -> Iterator[Call]:
    for place in roster.steady():
        if place.standing in (Standing.LEAVING, Standing.DISRUPTED):
            yield Call(place=place, cause=Cause.DISRUPTION, scope=RestartScope.POD)
