"""Rules about masters: one that never requests members, and one that does not end a completed job."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.lifecycle.finish import end_transition
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.messages import MessageReason, message
from pliant.model.state import JobOutcome, JobPhase

MAX_IDLE_MASTER_RESTARTS = 3


def restart_idle_master(context: Context) -> Transition | None:
    """Restart a master that has not requested members in time and does not retry by itself."""
    replica, deadline = _find_idle_master(context)
    if replica is None or deadline is None or context.now < deadline:
        return None
    group_name = replica.rank.group.name
    group_state = context.state.group(group_name)
    attempt = group_state.attempt + 1
    after = replace(
        group_state,
        attempt=attempt,
        index_min_attempts={**group_state.index_min_attempts, replica.rank.index: attempt},
        idle_master_restarts=group_state.idle_master_restarts + 1,
    )
    state = replace(context.state, groups={**context.state.groups, group_name: after})
    return make_transition(state, context.now, "MasterIdleRestart", message(MessageReason.MASTER_IDLE))


def time_to_idle_master_restart(context: Context) -> timedelta | None:
    """Return the time until the master counts as idle; None if it does not apply."""
    _, deadline = _find_idle_master(context)
    return max(deadline - context.now, timedelta(0)) if deadline is not None else None


def _find_idle_master(context: Context) -> tuple[Replica | None, datetime | None]:
    """Find a running master that has never had members, and until when it may request some."""
    job, state = context.job, context.state
    timeout = job.master.idle_timeout if job.master is not None else None
    if timeout is None or job.is_suspended or context.observed.plans:
        return None, None
    managed = (group for group in job.groups if group.is_master_managed)
    if any(state.group(group.name).next_member_id for group in managed):
        return None, None
    for replica in context.replicas.all:
        if replica.rank.group.is_master and replica.state is ReplicaState.RUNNING and replica.pod is not None:
            restarts = state.group(replica.rank.group.name).idle_master_restarts
            since = replica.pod.started_at if restarts < MAX_IDLE_MASTER_RESTARTS else None
            return (replica, since + timeout) if since is not None else (None, None)
    return None, None


def complete_after_master_timeout(context: Context) -> Transition | None:
    """End a job whose members have succeeded but whose master waits for members that were removed."""
    left = time_to_master_completion_timeout(context)
    if left is None or left > timedelta(0):
        return None
    cause = message(MessageReason.MASTER_DID_NOT_END)
    return end_transition(context, JobOutcome(phase=JobPhase.SUCCEED, message=cause, at=context.now))


def time_to_master_completion_timeout(context: Context) -> timedelta | None:
    """Return how long the master of a completed job may still take to end it."""
    since, master = context.state.work_done_since, context.job.master
    if since is None or master is None:
        return None
    return max(since + master.completion_timeout - context.now, timedelta(0))
