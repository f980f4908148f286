"""Who speaks for a job: members for their group, groups for the job."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.engine.roster import Place, Roster
from pliant.model.job import EndPolicy, Group, Job
from pliant.model.state import Outcome

Voter = tuple[EndPolicy, tuple[Place, ...]]
"""A group with a say: its policy and the members that count."""


def completion_reached(job: Job, roster: Roster) -> bool:
    """Whether the members that must succeed have."""
    return _reached(job.complete_policy, _on_completion(job, roster), Outcome.SUCCEEDED)


def failure_reached(job: Job, roster: Roster) -> bool:
    """Whether so many have failed that the job has."""
    voters = _voters(job, roster, [(group.fail_policy, group) for group in job.groups])
    return _reached(job.fail_policy, voters, Outcome.FAILED)


def deciding(job: Job, roster: Roster) -> list[Place]:
    """The failed members whose say counted when the job failed."""
    voters = _voters(job, roster, [(group.fail_policy, group) for group in job.groups])
    speaking = [
        places[:1] if own is EndPolicy.RANK0 else places
        for own, places in voters
        if _speaks(own, places, Outcome.FAILED)
    ]
    return [place for places in speaking for place in places if place.outcome is Outcome.FAILED]


def nobody_is_left(job: Job, roster: Roster) -> bool:
    """Whether every member that could still complete the job has ended."""
    voting = [place for _, places in _on_completion(job, roster) for place in places]
    places = voting or roster.places
    return bool(places) and all(place.outcome is not None for place in places)


def _on_completion(job: Job, roster: Roster) -> list[Voter]:
    voters = _voters(job, roster, [(group.complete_policy, group) for group in job.groups])
    return [
        (policy, _without_latecomers(places) if policy is EndPolicy.ALL else places) for policy, places in voters
    ]


def _without_latecomers(places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The members that are waited for: when one has done the work, nobody else has to come for it.

    That holds for those whom the autoscaler has added; there may never be room for them.
    """
    group = places[0].rank.group
    if not group.is_automatic or all(place.outcome is not Outcome.SUCCEEDED for place in places):
        return places
    return tuple(place for place in places if place.rank.index < group.least or _has_come(place))


def _has_come(place: Place) -> bool:
    return place.standing.is_up or place.outcome is not None


def _voters(job: Job, roster: Roster, policies: Iterable[tuple[EndPolicy, Group]]) -> list[Voter]:
    rows = [(policy, _counting(job, group, roster.of(group))) for policy, group in policies]
    return [(policy, places) for policy, places in rows if places and policy is not EndPolicy.NONE]


def _counting(job: Job, group: Group, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The members that count: of a group that may lose some, those it still has, and always the first."""
    if not (job.is_fault_tolerant and group.is_elastic):
        return places
    kept = [place for place in places if place.outcome is not Outcome.FAILED]
    if len(kept) < max(group.least, 1) or not places or places[0].outcome is Outcome.FAILED:
        return places
    return tuple(kept)


def _reached(policy: EndPolicy, voters: list[Voter], outcome: Outcome) -> bool:
    votes = [_speaks(own, places, outcome) for own, places in voters]
    return bool(votes) and (any(votes) if policy is EndPolicy.ANY else all(votes))


def _speaks(policy: EndPolicy, places: tuple[Place, ...], outcome: Outcome) -> bool:
    matches = [place.outcome is outcome for place in places]
    match policy:
        case EndPolicy.ANY:
            return any(matches)
        case EndPolicy.RANK0:
            return matches[0]
        case EndPolicy.ALL:
            return all(matches)
        case EndPolicy.NONE:
            return False
