"""Suspending and resuming: the members go, the clock stops, and everything learned is kept."""

from __future__ import annotations

from dataclasses import replace as altered
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION
from pliant.engine.pods.deletion import delete_pods
from pliant.engine.pods.replicas import Replicas, ReplicaState
from pliant.engine.status.rollup import roll_up_status
from pliant.model.actions import Action, DeleteService
from pliant.model.job import Job, MembershipSource, ReplicaGroup
from pliant.model.labels import normalize_group_name, replica_service_name
from pliant.model.observed import Observed
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaOutcome


def suspend_job(context: Context) -> Transition | None:
    """Send everybody home, if that is asked for."""
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
    return make_transition(
        state, context.now, str(JobPhase.SUSPENDED), "suspended: its pods go, its clock stands", is_warning=False
    )


def resume_job(context: Context) -> Transition | None:
    """Begin again, if that is asked for; templates may have changed meanwhile."""
    if context.job.is_suspended or context.state.phase is not JobPhase.SUSPENDED:
        return None
    if context.job.has_master and _has_non_master_pods(context):
        return None  # a new master would take those who leave for members that it has lost
    # Counts from before the suspension would say that everybody runs.
    present = roll_up_status(context)
    groups = {
        group.name: _reset_for_resume(context.job, group, present.group(group.name)) for group in context.job.groups
    }
    state = replace(present, phase=JobPhase.PENDING, message="resumed", groups=groups, resumed_at=context.now)
    return make_transition(state, context.now, "Resumed", "resumed", is_warning=False)


def _reset_for_resume(job: Job, group: ReplicaGroup, group_state: GroupState) -> GroupState:
    """What is kept of a group that begins again."""
    # What could not be created before has had time to be mended.
    group_state = replace(group_state, template_hash=group.template_hash, creation_stuck_since=None)
    if group.membership_source is MembershipSource.MASTER and not job.framework_options.get(PLIANT_MASTER_OPTION):
        # A new master that is not ours counts its members from 0, and waits for those ids.
        return replace(group_state, members={}, next_member_id=0)
    return group_state


def delete_for_suspend(job: Job, observed: Observed, now: datetime) -> tuple[Action, ...]:
    """Everything a suspended job still holds must go; its master stays, if it has one."""
    control = [group for group in job.groups if group.is_master]
    staying = {normalize_group_name(group.name) for group in control}
    named = {replica_service_name(job, group.name, index) for group in control for index in range(group.size)}
    services = sorted(
        (service for service in observed.services.values() if service.name not in named),
        key=lambda service: service.name,
    )
    leaving = sorted((pod for pod in observed.pods if pod.group not in staying), key=lambda pod: pod.name)
    return (
        *delete_pods(observed, leaving, "the job is suspended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_terminating),
    )


def with_master_only(context: Context) -> Context:
    """A suspended job with nobody to care for but its master, which begins anew.

    The old one would miss its members; the new one waits until they have left, or it would take them for its own.
    """
    is_early = _has_non_master_pods(context)
    places = tuple(
        place
        for place in context.replicas.all
        if place.rank.group.is_master and not (is_early and place.state is ReplicaState.ABSENT)
    )
    return altered(context, replicas=Replicas(all=places, orphan_pods=()))


def _has_non_master_pods(context: Context) -> bool:
    """Whether anybody is there besides the master."""
    control = {normalize_group_name(group.name) for group in context.job.groups if group.is_master}
    return any(pod.group not in control for pod in context.observed.pods)


def active_seconds(state: EngineState, now: datetime) -> float:
    """How long the job has run so far, suspensions left out."""
    since = (now - state.active_since).total_seconds() if state.active_since is not None else 0.0
    return state.active_seconds_before + max(since, 0.0)


def _with_next_attempts(context: Context) -> dict[str, GroupState]:
    """One generation on: whoever comes after the suspension never meets those from before it.

    Who has done their work stays done, though their pods go.
    """
    groups = {**context.state.groups}
    for group in context.job.groups:
        memory = context.state.group(group.name)
        if group.membership_source is MembershipSource.MASTER:
            continue  # those whom a master looks after come and go by its word alone
        attempt = memory.attempt + 1
        done = {
            place.rank.index: ReplicaOutcome.SUCCEEDED
            for place in context.replicas.in_group(group)
            if place.outcome is ReplicaOutcome.SUCCEEDED
        }
        groups[group.name] = replace(
            memory,
            attempt=attempt,
            job_min_attempt=attempt,
            index_min_attempts={},
            replica_outcomes=memory.replica_outcomes | done,
        )
    return groups
