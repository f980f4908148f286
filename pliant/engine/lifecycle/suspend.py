"""Suspend and resume: a suspended job has no pods but its master's, and keeps its state; timeLimit is paused."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION
from pliant.engine.pods.deletion import delete_pods
from pliant.engine.pods.replicas import Replicas, ReplicaState
from pliant.engine.sizing import with_new_attempt
from pliant.engine.status.rollup import roll_up_status
from pliant.model.actions import Action, DeleteService
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import normalize_group_name, replica_service_name
from pliant.model.observed import Observed
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaOutcome


def suspend_job(context: Context) -> Transition | None:
    if not context.job.is_suspended or context.state.phase is JobPhase.SUSPENDED:
        return None
    state = replace(
        context.state,
        phase=JobPhase.SUSPENDED,
        message="suspended",
        groups=_with_next_attempts(context) if context.observed.pods else context.state.groups,
        active_since=None,
        active_seconds_before=active_seconds(context.state, context.now),
    )
    message = "deleting pods; timeLimit is paused"
    return make_transition(state, context.now, str(JobPhase.SUSPENDED), message, is_warning=False)


def resume_job(context: Context) -> Transition | None:
    """Resume the job if it is no longer suspended; its templates may have changed."""
    if context.job.is_suspended or context.state.phase is not JobPhase.SUSPENDED:
        return None
    if context.job.has_master and _has_non_master_pods(context):
        return None  # a new master would take the terminating pods for lost members
    # The replica counts from before the suspension are outdated.
    current, job = roll_up_status(context), context.job
    groups = {group.name: _reset_for_resume(job, group, current.group(group.name)) for group in job.groups}
    state = replace(current, phase=JobPhase.PENDING, message="resumed", groups=groups, resumed_at=context.now)
    return make_transition(state, context.now, "Resumed", "resumed", is_warning=False)


def _reset_for_resume(job: Job, group: ReplicaGroup, group_state: GroupState) -> GroupState:
    group_state = replace(group_state, template_hash=group.template_hash, creation_stuck_since=None)
    if group.is_master_managed and not job.framework_options.get(PLIANT_MASTER_OPTION):
        # A new DLRover master numbers its members from 0 and waits for these IDs.
        return replace(group_state, members={}, next_member_id=0)
    return group_state


def delete_for_suspend(job: Job, observed: Observed, now: datetime) -> tuple[Action, ...]:
    """Return the deletions of all pods and services of a suspended job except those of its master."""
    masters = [group for group in job.groups if group.is_master]
    master_groups = {normalize_group_name(group.name) for group in masters}
    kept_services = {replica_service_name(job, group.name, index) for group in masters for index in range(group.size)}
    leftover = (service for service in observed.services.values() if service.name not in kept_services)
    services = sorted(leftover, key=lambda service: service.name)
    pods = sorted((pod for pod in observed.pods if pod.group not in master_groups), key=lambda pod: pod.name)
    return (
        *delete_pods(observed, pods, "the job is suspended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_terminating),
    )


def with_master_only(context: Context) -> Context:
    """Return the context of a suspended job with its master as the only replica.

    The master is restarted: the old one would replace the deleted members. The new one is created after their pods
    are gone, because it would adopt them.
    """
    masters = [replica for replica in context.replicas.all if replica.rank.group.is_master]
    if _has_non_master_pods(context):
        masters = [replica for replica in masters if replica.state is not ReplicaState.ABSENT]
    return dataclasses.replace(context, replicas=Replicas(all=tuple(masters), orphan_pods=()))


def _has_non_master_pods(context: Context) -> bool:
    master_groups = {normalize_group_name(group.name) for group in context.job.groups if group.is_master}
    return any(pod.group not in master_groups for pod in context.observed.pods)


def active_seconds(state: EngineState, now: datetime) -> float:
    """Return how long the job has run, without the time it was suspended."""
    since = (now - state.active_since).total_seconds() if state.active_since is not None else 0.0
    return state.active_seconds_before + max(since, 0.0)


def _with_next_attempts(context: Context) -> dict[str, GroupState]:
    """Start a new attempt of all engine-managed groups, so that resumed replicas never meet earlier ones.

    Replicas that have succeeded stay succeeded although their pods are deleted.
    """
    groups = {**context.state.groups}
    for group in context.job.groups:
        if group.is_master_managed:
            continue
        group_state = context.state.group(group.name)
        replicas = context.replicas.in_group(group)
        succeeded = [replica.rank.index for replica in replicas if replica.outcome is ReplicaOutcome.SUCCEEDED]
        outcomes = group_state.replica_outcomes | dict.fromkeys(succeeded, ReplicaOutcome.SUCCEEDED)
        groups[group.name] = replace(with_new_attempt(group_state), replica_outcomes=outcomes)
    return groups
