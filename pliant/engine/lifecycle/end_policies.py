"""Who speaks for a job: members for their group, groups for the job."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.engine.pods.replicas import Replica, Replicas
from pliant.model.job import EndPolicy, Job, ReplicaGroup
from pliant.model.state import ReplicaOutcome

GroupPolicy = tuple[EndPolicy, tuple[Replica, ...]]
"""A group with a say: its policy and the members that count."""


def has_job_completed(job: Job, replicas: Replicas) -> bool:
    """Whether the members that must succeed have."""
    return _is_job_policy_met(job.complete_policy, _completion_policies(job, replicas), ReplicaOutcome.SUCCEEDED)


def has_job_failed(job: Job, replicas: Replicas) -> bool:
    """Whether so many have failed that the job has."""
    voters = _group_policies(job, replicas, [(group.fail_policy, group) for group in job.groups])
    return _is_job_policy_met(job.fail_policy, voters, ReplicaOutcome.FAILED)


def list_decisive_failures(job: Job, replicas: Replicas) -> list[Replica]:
    """The failed members whose say counted when the job failed."""
    voters = _group_policies(job, replicas, [(group.fail_policy, group) for group in job.groups])
    speaking = [
        places[:1] if own is EndPolicy.RANK0 else places
        for own, places in voters
        if _is_group_policy_met(own, places, ReplicaOutcome.FAILED)
    ]
    return [place for places in speaking for place in places if place.outcome is ReplicaOutcome.FAILED]


def have_all_ended(job: Job, replicas: Replicas) -> bool:
    """Whether every member that could still complete the job has ended."""
    voting = [place for _, places in _completion_policies(job, replicas) for place in places]
    places = voting or replicas.all
    return bool(places) and all(place.outcome is not None for place in places)


def _completion_policies(job: Job, replicas: Replicas) -> list[GroupPolicy]:
    voters = _group_policies(job, replicas, [(group.complete_policy, group) for group in job.groups])
    return [(policy, _without_unstarted(places) if policy is EndPolicy.ALL else places) for policy, places in voters]


def _without_unstarted(replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    """The members that are waited for: when one has done the work, nobody else has to come for it.

    That holds for those whom the autoscaler has added; there may never be room for them.
    """
    group = replicas[0].rank.group
    if not group.is_autoscaled or all(place.outcome is not ReplicaOutcome.SUCCEEDED for place in replicas):
        return replicas
    return tuple(place for place in replicas if place.rank.index < group.min_size or _has_started_or_ended(place))


def _has_started_or_ended(replica: Replica) -> bool:
    return replica.state.has_started or replica.outcome is not None


def _group_policies(
    job: Job, replicas: Replicas, policies: Iterable[tuple[EndPolicy, ReplicaGroup]]
) -> list[GroupPolicy]:
    rows = [(policy, _counted_replicas(job, group, replicas.in_group(group))) for policy, group in policies]
    return [(policy, places) for policy, places in rows if places and policy is not EndPolicy.NONE]


def _counted_replicas(job: Job, group: ReplicaGroup, replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    """The members that count: of a group that may lose some, those it still has, and always the first."""
    if not (job.is_fault_tolerant and group.is_elastic):
        return replicas
    kept = [place for place in replicas if place.outcome is not ReplicaOutcome.FAILED]
    if len(kept) < max(group.min_size, 1) or not replicas or replicas[0].outcome is ReplicaOutcome.FAILED:
        return replicas
    return tuple(kept)


def _is_job_policy_met(policy: EndPolicy, group_policies: list[GroupPolicy], outcome: ReplicaOutcome) -> bool:
    votes = [_is_group_policy_met(own, places, outcome) for own, places in group_policies]
    return bool(votes) and (any(votes) if policy is EndPolicy.ANY else all(votes))


def _is_group_policy_met(policy: EndPolicy, replicas: tuple[Replica, ...], outcome: ReplicaOutcome) -> bool:
    matches = [place.outcome is outcome for place in replicas]
    match policy:
        case EndPolicy.ANY:
            return any(matches)
        case EndPolicy.RANK0:
            return matches[0]
        case EndPolicy.ALL:
            return all(matches)
        case EndPolicy.NONE:
            return False
