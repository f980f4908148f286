"""Restarts of a master that never requested members: its first ScalePlan was lost, and it does not retry."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION
from pliant.engine.pods.replicas import Replica, ReplicaState

IDLE_MASTER_TIMEOUT = timedelta(minutes=3)
"""DLRover's masters create a plan within seconds, and give up after fifteen if the API server is unavailable."""
MAX_IDLE_MASTER_RESTARTS = 3


def restart_idle_master(context: Context) -> Transition | None:
    """Restart a DLRover master that has not requested members in time; Pliant's own master retries by itself."""
    replica, since = _find_idle_master(context)
    if replica is None or since is None or context.now < since + IDLE_MASTER_TIMEOUT:
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
    message = "the master has not requested replicas; restarting it"
    return make_transition(state, context.now, "MasterIdleRestart", message)


def time_to_idle_master_restart(context: Context) -> timedelta | None:
    """Return the time until the master counts as idle; None if it does not apply."""
    _, since = _find_idle_master(context)
    return max(since + IDLE_MASTER_TIMEOUT - context.now, timedelta(0)) if since is not None else None


def _find_idle_master(context: Context) -> tuple[Replica | None, datetime | None]:
    """Find a running master, not Pliant's own, that has never had members, and the start time of its pod."""
    job, state = context.job, context.state
    is_pliant_master = job.framework_options.get(PLIANT_MASTER_OPTION)
    if not job.has_master or is_pliant_master or job.is_suspended or context.observed.plans:
        return None, None
    managed = (group for group in job.groups if group.is_master_managed)
    if any(state.group(group.name).next_member_id for group in managed):
        return None, None
    for replica in context.replicas.all:
        if replica.rank.group.is_master and replica.state is ReplicaState.RUNNING and replica.pod is not None:
            restarts = state.group(replica.rank.group.name).idle_master_restarts
            return (replica, replica.pod.started_at) if restarts < MAX_IDLE_MASTER_RESTARTS else (None, None)
    return None, None
