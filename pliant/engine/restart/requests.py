"""Who calls for a restart: members that failed, were lost, cannot be created, or were taken away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pliant.engine.context import Context
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.status.messages import describe_failure
from pliant.model.job import Job, RestartPolicy, RestartScope
from pliant.model.observed import StuckContainer
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import GroupState, RestartCause

_SCOPES_WIDEST_FIRST = (RestartScope.ALL, RestartScope.REPLICA, RestartScope.POD)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    """A reason to restart, at one place."""

    replica: Replica
    cause: RestartCause
    scope: RestartScope

    @property
    def is_uncharged(self) -> bool:
        """Whether it is charged to nobody."""
        return self.cause is RestartCause.DISRUPTION and not self.replica.rank.group.restart_rule.counts_disruptions

    def __str__(self) -> str:
        return describe_failure(self.replica)


def list_restart_requests(context: Context) -> list[RestartRequest]:
    """Every call at present, those that reach farthest first."""
    every = [
        *_requests_for_failures(context.job, context.replicas),
        *_requests_for_creation_timeouts(context),
        *_requests_for_disruptions(context.replicas),
    ]
    return sorted(every, key=lambda call: _SCOPES_WIDEST_FIRST.index(call.scope))


def is_creation_overdue(stuck_container: StuckContainer | None, config: OperatorConfig, now: datetime) -> bool:
    """Whether a container has failed to be created for too long."""
    return stuck_container is not None and now >= stuck_container.since + config.creation_timeout


def time_to_creation_timeout(context: Context) -> timedelta | None:
    """How long until the first container that cannot be created has failed for too long."""
    ends = (
        place.pod.stuck_container.since + context.config.creation_timeout
        for place in context.replicas.list_engine_managed()
        if place.state is ReplicaState.SCHEDULED and place.pod is not None and place.pod.stuck_container is not None
    )
    return min((end - context.now for end in ends if end > context.now), default=None)


def list_creation_timeouts(context: Context) -> list[Replica]:
    """Members whose containers cannot be created, although there was patience."""
    return [
        place
        for place in context.replicas.list_engine_managed()
        if place.state is ReplicaState.SCHEDULED
        and place.pod is not None
        and is_creation_overdue(place.pod.stuck_container, context.config, context.now)
    ]


def _requests_for_failures(job: Job, replicas: Replicas) -> Iterator[RestartRequest]:
    for place in replicas.list_failed():
        if place.pod is not None and is_restartable(job, place):
            yield RestartRequest(replica=place, cause=place.failure_cause, scope=place.rank.group.restart_rule.scope)


def is_restartable(job: Job, replica: Replica) -> bool:
    """Whether a member ended in a way that its group restarts on, as long as there is a budget."""
    end = replica.pod.exit if replica.pod else None
    is_listed = end is not None and end.code in job.restart_exit_codes
    if end is not None and end.code in replica.rank.group.restart_rule.permanent_exit_codes:
        return False
    match replica.rank.group.restart_rule.policy:
        case RestartPolicy.ALWAYS:
            return True
        case RestartPolicy.ON_FAILURE:
            return replica.state is ReplicaState.FAILED
        case RestartPolicy.ON_NODE_FAIL:
            return replica.failure_cause is RestartCause.NODE
        case RestartPolicy.EXIT_CODE:
            return is_listed
        case RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE:
            return is_listed or replica.failure_cause is RestartCause.NODE
        case RestartPolicy.NEVER | None:
            return False


def _requests_for_creation_timeouts(context: Context) -> Iterator[RestartRequest]:
    """Pods to be made anew elsewhere: only that place is concerned, whatever the group's scope."""
    for place in list_creation_timeouts(context):
        memory = context.state.group(place.rank.group.name)
        if _may_retry_creation(place, memory, context.config, context.now):
            yield RestartRequest(replica=place, cause=RestartCause.CREATION, scope=RestartScope.POD)


def _may_retry_creation(replica: Replica, group_state: GroupState, config: OperatorConfig, now: datetime) -> bool:
    stuck = replica.pod.stuck_container if replica.pod else None
    return stuck is not None and now - (group_state.creation_stuck_since or stuck.since) < config.creation_retry_window


def _requests_for_disruptions(replicas: Replicas) -> Iterator[RestartRequest]:
    for place in replicas.list_engine_managed():
        if place.state in (ReplicaState.TERMINATING, ReplicaState.DISRUPTED):
            yield RestartRequest(replica=place, cause=RestartCause.DISRUPTION, scope=RestartScope.POD)
