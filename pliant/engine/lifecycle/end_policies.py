"""Complete and fail policies: the outcome of a job from that of its replicas and groups."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.engine.pods.replicas import Replica, Replicas
from pliant.model.job import EndPolicy, Job, ReplicaGroup
from pliant.model.state import ReplicaOutcome

GroupPolicy = tuple[EndPolicy, tuple[Replica, ...]]
"""The policy of a group and the replicas it applies to."""


def has_job_completed(job: Job, replicas: Replicas) -> bool:
    return _is_job_policy_met(job.complete_policy, _completion_policies(job, replicas), ReplicaOutcome.SUCCEEDED)


def has_job_failed(job: Job, replicas: Replicas) -> bool:
    return _is_job_policy_met(job.fail_policy, _fail_policies(job, replicas), ReplicaOutcome.FAILED)


def list_decisive_failures(job: Job, replicas: Replicas) -> list[Replica]:
    """Return the failed replicas that met the fail policies of their groups."""
    decisive = [
        counted[:1] if policy is EndPolicy.RANK0 else counted
        for policy, counted in _fail_policies(job, replicas)
        if _is_group_policy_met(policy, counted, ReplicaOutcome.FAILED)
    ]
    return [replica for counted in decisive for replica in counted if replica.outcome is ReplicaOutcome.FAILED]


def have_deciding_replicas_ended(job: Job, replicas: Replicas) -> bool:
    """Return whether all replicas that could still complete the job have terminated."""
    deciding = [
        replica for _, counted in _completion_policies(job, replicas) for replica in counted
    ] or replicas.list_training()
    return bool(deciding) and all(replica.outcome is not None for replica in deciding)


def _fail_policies(job: Job, replicas: Replicas) -> list[GroupPolicy]:
    return _group_policies(job, replicas, [(group.fail_policy, group) for group in job.training_groups])


def _completion_policies(job: Job, replicas: Replicas) -> list[GroupPolicy]:
    policies = _group_policies(job, replicas, [(group.complete_policy, group) for group in job.training_groups])
    return [(policy, _drop_unstarted(each) if policy is EndPolicy.ALL else each) for policy, each in policies]


def _drop_unstarted(replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    """Once a replica has succeeded, drop those above the minimum size that never started.

    The autoscaler has added these; the cluster may never have capacity for them.
    """
    group = replicas[0].rank.group
    if not group.is_autoscaled or all(replica.outcome is not ReplicaOutcome.SUCCEEDED for replica in replicas):
        return replicas
    return tuple(
        replica
        for position, replica in enumerate(replicas)
        if position < group.min_size or replica.state.has_started or replica.outcome is not None
    )


def _group_policies(
    job: Job, replicas: Replicas, policies: Iterable[tuple[EndPolicy, ReplicaGroup]]
) -> list[GroupPolicy]:
    counted = [(policy, _counted_replicas(job, group, replicas.in_group(group))) for policy, group in policies]
    return [(policy, replicas) for policy, replicas in counted if replicas and policy is not EndPolicy.NONE]


def _counted_replicas(job: Job, group: ReplicaGroup, replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    """Leave out the failed replicas of a fault-tolerant group unless the first failed or too few are left."""
    if not (job.is_fault_tolerant and group.is_elastic):
        return replicas
    kept = [replica for replica in replicas if replica.outcome is not ReplicaOutcome.FAILED]
    if len(kept) < max(group.min_size, 1) or not replicas or replicas[0].outcome is ReplicaOutcome.FAILED:
        return replicas
    return tuple(kept)


def _is_job_policy_met(policy: EndPolicy, group_policies: list[GroupPolicy], outcome: ReplicaOutcome) -> bool:
    is_met = [_is_group_policy_met(group_policy, replicas, outcome) for group_policy, replicas in group_policies]
    return bool(is_met) and (any(is_met) if policy is EndPolicy.ANY else all(is_met))


def _is_group_policy_met(policy: EndPolicy, replicas: tuple[Replica, ...], outcome: ReplicaOutcome) -> bool:
    matches = [replica.outcome is outcome for replica in replicas]
    match policy:
        case EndPolicy.ANY:
            return any(matches)
        case EndPolicy.RANK0:
            return matches[0]
        case EndPolicy.ALL:
            return all(matches)
        case EndPolicy.NONE:
            return False
