"""Suspend and resume: a suspended job has no pods but its master's, and keeps its state; timeLimit is paused."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.master_pods import (
    has_pods_besides_master,
    is_master_pod,
    list_master_services,
    select_suspended_replicas,
)
from pliant.engine.plans.membership import membership_of
from pliant.engine.pod_sync import sync_pods
from pliant.engine.pods.deletion import delete_pods
from pliant.engine.status.rollup import roll_up_status
from pliant.model.actions import Action, DeleteService, PodDeletionReason
from pliant.model.framework import Framework
from pliant.model.job import Master, ReplicaGroup
from pliant.model.messages import MessageReason, message
from pliant.model.state import EngineState, GroupState, JobPhase

RESUMED_REASON = "Resumed"


def suspend_job(context: Context) -> Transition | None:
    if not context.job.is_suspended or context.is_suspended:
        return None
    state = replace(
        context.state,
        phase=JobPhase.SUSPENDED,
        message=message(MessageReason.SUSPENDED),
        groups=_with_next_attempts(context) if context.observed.pods else context.state.groups,
        active_since=None,
        active_seconds_before=active_seconds(context.state, context.now),
    )
    cause = message(MessageReason.SUSPENDING)
    return make_transition(state, context.now, str(JobPhase.SUSPENDED), cause, is_warning=False)


def resume_job(context: Context) -> Transition | None:
    """Resume the job if it is no longer suspended; its templates may have changed."""
    if context.job.is_suspended or not context.is_suspended:
        return None
    if context.job.master is not None and has_pods_besides_master(context):
        return None  # a new master would take the terminating pods for lost members
    # The replica counts from before the suspension are outdated.
    current, job = roll_up_status(context), context.job
    groups = {group.name: _reset_for_resume(group, current.group(group.name), job.master) for group in job.groups}
    resumed = message(MessageReason.RESUMED)
    state = replace(
        current,
        phase=JobPhase.PENDING,
        message=resumed,
        groups=groups,
        resumed_at=context.now,
        has_control_group=any(group.is_control for group in job.groups),
        uncounted_seconds_before=current.uncounted_seconds,
    )
    return make_transition(state, context.now, RESUMED_REASON, resumed, is_warning=False)


def _reset_for_resume(group: ReplicaGroup, group_state: GroupState, master: Master | None) -> GroupState:
    group_state = replace(group_state, template_hash=group.template_hash, creation_stuck_since=None)
    return membership_of(group).resume(group_state, master)


def sync_suspended_pods(context: Context, framework: Framework) -> tuple[tuple[Action, ...], timedelta | None]:
    """Delete the pods and services of a suspended job except those of its master, which is replaced if it fails."""
    deletions = delete_for_suspend(context)
    if context.job.master is None:
        return deletions, None
    actions, backoff = sync_pods(context, select_suspended_replicas(context), framework)
    return (*deletions, *actions), backoff


def delete_for_suspend(context: Context) -> tuple[Action, ...]:
    job, observed = context.job, context.observed
    kept_services = list_master_services(job)
    leftover = (service for service in observed.services.values() if service.name not in kept_services)
    services = sorted(leftover, key=lambda service: service.name)
    pods = sorted((pod for pod in observed.pods if not is_master_pod(job, pod)), key=lambda pod: pod.name)
    return (
        *delete_pods(pods, PodDeletionReason.JOB_SUSPENDED, context.config, context.now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_terminating),
    )


def active_seconds(state: EngineState, now: datetime) -> float:
    """Return how long the job has run, without the time it was suspended."""
    since = (now - state.active_since).total_seconds() if state.active_since is not None else 0.0
    return state.active_seconds_before + max(since, 0.0)


def _with_next_attempts(context: Context) -> dict[str, GroupState]:
    """Return the group states with new attempts, so that resumed replicas never meet earlier ones."""
    return {
        **context.state.groups,
        **{
            group.name: membership_of(group).suspend(context.state.group(group.name), context.replicas.in_group(group))
            for group in context.job.groups
        },
    }
