"""Recorded failures of replicas, kept after their pods are deleted so that the root cause can be reported."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, JobPhase, ReplicaFailure, ReplicaOutcome, RestartCause

MAX_RECORDED_FAILURES = 8
MAX_FAILURE_MESSAGE_CHARS = 160
"""The limit for a recorded failure; the root cause keeps its whole message."""


def record_failures(state: EngineState, replicas: Iterable[Replica], now: datetime) -> EngineState:
    """Add the failures of these replicas; a recorded failure never changes."""
    known = {(failure.replica, failure.attempt) for failure in state.failures}
    new = [each for each in collect_failures(state, replicas, now) if (each.replica, each.attempt) not in known]
    if not new:
        return state
    shortened = (replace(each, message=_last_line(each.message)) for each in new[:MAX_RECORDED_FAILURES])
    return replace(state, failures=(*state.failures, *shortened)[-MAX_RECORDED_FAILURES:])


def set_root_cause(
    state: EngineState, failed: Iterable[Replica], unstarted: Iterable[Replica], now: datetime
) -> EngineState:
    """Record the failures of replicas; the earliest one, or that of a replica that did not start, is the root cause."""
    failed = list(failed)
    failures = collect_failures(state, (*failed, *unstarted), now)
    return replace(record_failures(state, failed, now), root_cause=failures[0] if failures else None)


def list_unstarted(state: EngineState, replicas: Iterable[Replica]) -> list[Replica]:
    """Return the replicas that cannot start, and for which others may have waited in vain; none of a running job."""
    if state.phase is JobPhase.RUNNING:
        return []
    return [each for each in replicas if each.pod and each.pod.start_problem and not each.state.has_started]


def sort_by_failure_time(state: EngineState, replicas: Iterable[Replica], now: datetime) -> list[Replica]:
    """Return replicas that failed or do not start, the earliest failure first: it is the root cause."""
    return [replica for _, replica in _match_failures(state, replicas, now)]


def list_new_failures(state: EngineState, replicas: Iterable[Replica]) -> list[Replica]:
    """Return the failed replicas whose failure is not in the state yet."""
    return [
        replica
        for replica in replicas
        if replica.state is ReplicaState.FAILED
        and state.group(replica.rank.group.name).replica_outcomes.get(replica.rank.index) is not ReplicaOutcome.FAILED
    ]


def collect_failures(state: EngineState, replicas: Iterable[Replica], now: datetime) -> list[ReplicaFailure]:
    """Return the failures of these replicas, the earliest first; recorded ones if the pod is gone."""
    return [failure for failure, _ in _match_failures(state, replicas, now)]


def _match_failures(
    state: EngineState, replicas: Iterable[Replica], now: datetime
) -> list[tuple[ReplicaFailure, Replica]]:
    """Return the failure of each replica, the earliest first; of the same second, the one that was recorded first."""
    recorded_failures = {(failure.replica, failure.attempt): failure for failure in state.failures}
    order = list(recorded_failures)
    matched = []
    for replica in replicas:
        attempt = replica.pod.attempt if replica.pod else replica.rank.attempt
        key = (replica.display_name, attempt)
        recorded = recorded_failures.get(key)
        if replica.pod is None:
            failure = recorded or ReplicaFailure(replica=replica.display_name, attempt=attempt, at=now)
        else:
            failure = _make_failure(replica, replica.pod, now)
            # The pod has the whole message, the recorded failure only its last line.
            failure = replace(recorded, message=failure.message) if recorded else failure
        position = order.index(key) if recorded else len(order)
        matched.append(((failure.at, position, failure.replica), failure, replica))
    return [(failure, replica) for _, failure, replica in sorted(matched, key=lambda each: each[0])]


def _make_failure(replica: Replica, pod: ObservedPod, now: datetime) -> ReplicaFailure:
    fault = pod.node_fault
    failure = ReplicaFailure(
        replica=replica.display_name,
        attempt=pod.attempt,
        cause=replica.failure_cause,
        node=pod.node,
        at=pod.finished_at or (fault.since if fault else now),
        reason=fault.description if fault else "",
    )
    if pod.stuck_container is not None and replica.state is ReplicaState.SCHEDULED:
        return replace(
            failure,
            cause=RestartCause.CREATION,
            container=pod.stuck_container.container,
            reason=pod.stuck_container.reason,
            message=pod.start_problem,
            at=pod.stuck_container.since,
        )
    if pod.start_problem and not replica.state.has_started:
        reason = pod.start_problem.partition(":")[0]
        at = pod.start_problem_since or now
        return replace(failure, cause=RestartCause.CREATION, reason=reason, message=pod.start_problem, at=at)
    if pod.exit is None:
        return failure
    return replace(
        failure,
        container=pod.exit.container,
        exit_code=pod.exit.code,
        signal=pod.exit.signal,
        reason=pod.exit.reason or failure.reason,
        message=pod.exit.last_log_lines or pod.exit.message,
    )


def _last_line(text: str) -> str:
    lines = text.splitlines()
    return lines[-1][-MAX_FAILURE_MESSAGE_CHARS:] if lines else ""
