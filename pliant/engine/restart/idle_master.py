"""A master that never asked for anybody: its first plan was lost, and it does not ask twice."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.job import MembershipSource

IDLE_MASTER_TIMEOUT = timedelta(minutes=3)
"""DLRover's masters ask within seconds, and give up after fifteen if the API server would not take it."""
MAX_IDLE_RESTARTS = 3
"""How often a master is made anew for that: one that still asks for nobody may have its reasons."""


def restart_idle_master(context: Context) -> Transition | None:
    """Make a master anew that should have asked for members by now; ours asks until it is heard."""
    place = _find_idle_master(context)
    since = _pod_started_at(place)
    if place is None or since is None or context.now < since + IDLE_MASTER_TIMEOUT:
        return None
    memory = context.state.group(place.rank.group.name)
    attempt = memory.attempt + 1
    after = replace(
        memory,
        attempt=attempt,
        index_min_attempts={**memory.index_min_attempts, place.rank.index: attempt},
        idle_master_restarts=memory.idle_master_restarts + 1,
    )
    state = replace(context.state, groups={**context.state.groups, place.rank.group.name: after})
    return make_transition(state, context.now, "MasterIdle", "the master has asked for nobody yet: it is started again")


def time_to_idle_restart(context: Context) -> timedelta | None:
    """How long until a master is taken to be idle; None if it is not."""
    since = _pod_started_at(_find_idle_master(context))
    return max(since + IDLE_MASTER_TIMEOUT - context.now, timedelta(0)) if since is not None else None


def _pod_started_at(replica: Replica | None) -> datetime | None:
    return replica.pod.started_at if replica is not None and replica.pod is not None else None


def _find_idle_master(context: Context) -> Replica | None:
    """The place of a foreign master that runs alone and has never done otherwise."""
    job = context.job
    if (
        not job.has_master
        or job.framework_options.get(PLIANT_MASTER_OPTION)
        or job.is_suspended
        or context.observed.plans
    ):
        return None
    if any(
        context.state.group(group.name).next_member_id
        for group in job.groups
        if group.membership_source is MembershipSource.MASTER
    ):
        return None
    masters = (place for place in context.replicas.all if place.rank.group.is_master)
    found = next((place for place in masters if place.state is ReplicaState.RUNNING), None)
    if found is None or context.state.group(found.rank.group.name).idle_master_restarts >= MAX_IDLE_RESTARTS:
        return None
    return found
