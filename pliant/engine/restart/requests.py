"""Restart requests: replicas that failed, were lost, cannot be created or were disrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from pliant.engine.context import Context
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.restart.start_failures import can_never_start
from pliant.model.job import Job, ReplicaGroup, RestartPolicy, RestartScope
from pliant.model.state import RestartCause

_SCOPES_WIDEST_FIRST = (RestartScope.ALL, RestartScope.REPLICA, RestartScope.POD)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    replica: Replica
    cause: RestartCause
    scope: RestartScope

    @property
    def is_exempt_from_limit(self) -> bool:
        if self.replica.is_disrupted_by_node:
            return True
        return self.cause is RestartCause.DISRUPTION and not self.replica.rank.group.restart_rule.counts_disruptions


def list_restart_requests(context: Context) -> list[RestartRequest]:
    """Return all current restart requests, the widest scope first."""
    return sorted(_find_restart_requests(context), key=lambda request: _SCOPES_WIDEST_FIRST.index(request.scope))


def _find_restart_requests(context: Context) -> Iterator[RestartRequest]:
    now = context.now
    for replica in context.replicas.list_failed():
        can_restart = is_restartable(context.job, replica) and not can_never_start(context, replica)
        if replica.pod is not None and can_restart:
            scope, is_control = replica.rank.group.restart_rule.scope, replica.rank.group.is_control
            cause = RestartCause.DISRUPTION if is_control else replica.failure_cause
            yield RestartRequest(replica=replica, cause=cause, scope=scope)
    # Stuck and disrupted pods are replaced alone, whatever the scope of the group.
    for replica in list_stuck_in_creation(context):
        stuck = replica.pod.stuck_container if replica.pod else None
        since = context.state.group(replica.rank.group.name).creation_stuck_since or (stuck.since if stuck else now)
        if now - since < context.config.creation_retry_window:
            yield RestartRequest(replica=replica, cause=RestartCause.CREATION, scope=RestartScope.POD)
    for replica in context.replicas.list_engine_managed():
        if replica.rank.group.is_control:
            yield from _find_control_restart(context, replica)
        elif replica.state in (ReplicaState.TERMINATING, ReplicaState.DISRUPTED):
            yield RestartRequest(replica=replica, cause=RestartCause.DISRUPTION, scope=RestartScope.POD)


def _find_control_restart(context: Context, replica: Replica) -> Iterator[RestartRequest]:
    """Yield the restart of the whole job if the replica that serves all others is lost, or if it is about to be lost.

    Without it the others end, so their failures are not their own: they may be noticed before its own. The others may
    also say that they cannot use it any more.
    """
    is_gone = replica.state in (ReplicaState.TERMINATING, ReplicaState.DISRUPTED, ReplicaState.SUCCEEDED)
    is_unusable = any(_is_told_unusable(replica.rank.group, failed) for failed in context.replicas.list_failed())
    is_endangered = replica.pod is not None and replica.pod.node_fault is not None
    has_failures = is_endangered and any(each is not replica for each in context.replicas.list_failed())
    if is_gone or is_unusable or has_failures:
        yield RestartRequest(replica=replica, cause=RestartCause.DISRUPTION, scope=RestartScope.ALL)


def _is_told_unusable(group: ReplicaGroup, failed: Replica) -> bool:
    pod_exit = failed.pod.exit if failed.pod is not None else None
    text = f"{pod_exit.message}\n{pod_exit.last_log_lines}" if pod_exit is not None else ""
    return any(marker in text for marker in group.unusable_markers)


def time_to_creation_timeout(context: Context) -> timedelta | None:
    """Return the time until the first failing container creation reaches its timeout."""
    deadlines = (
        each.pod.stuck_container.since + context.config.container_creation_timeout
        for each in context.replicas.list_engine_managed()
        if each.state is ReplicaState.SCHEDULED and each.pod is not None and each.pod.stuck_container is not None
    )
    return min((deadline - context.now for deadline in deadlines if deadline > context.now), default=None)


def list_stuck_in_creation(context: Context) -> list[Replica]:
    return [
        replica
        for replica in context.replicas.list_engine_managed()
        if replica.state is ReplicaState.SCHEDULED
        and replica.pod is not None
        and replica.pod.stuck_container is not None
        and context.now >= replica.pod.stuck_container.since + context.config.container_creation_timeout
    ]


def is_restartable(job: Job, replica: Replica) -> bool:
    """Return whether the restart policy of the group applies to this failure; limits are not considered."""
    rule = replica.rank.group.restart_rule
    pod_exit = replica.pod.exit if replica.pod else None
    is_listed = pod_exit is not None and pod_exit.code in job.restart_exit_codes
    if pod_exit is not None and pod_exit.code in rule.permanent_exit_codes:
        return False
    match rule.policy:
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
