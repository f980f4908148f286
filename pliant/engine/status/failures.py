"""Who ended badly and how: kept while pods come and go, so that the first cause can be named at the end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, ReplicaFailure, ReplicaOutcome, RestartCause

MAX_FAILURES = 8
"""Failures kept; the oldest go first."""
MAX_MESSAGE_CHARS = 160
"""Characters of what each of them said; the first cause is quoted in full."""


def record_failures(state: EngineState, replicas: Iterable[Replica], now: datetime) -> EngineState:
    """The memory with these failures among those kept; what is known of one never changes."""
    known = {(failure.replica, failure.attempt) for failure in state.failures}
    fresh = [each for each in collect_failures(state, replicas, now) if (each.replica, each.attempt) not in known]
    if not fresh:
        return state
    kept = (*state.failures, *(replace(each, message=_last_line(each.message)) for each in fresh[:MAX_FAILURES]))
    return replace(state, failures=kept[-MAX_FAILURES:])


def set_root_cause(state: EngineState, replicas: Iterable[Replica], now: datetime) -> EngineState:
    """The memory with the earliest of these failures as the first cause of what is decided now."""
    everyone = list(replicas)
    found = collect_failures(state, everyone, now)
    return replace(record_failures(state, everyone, now), root_cause=found[0] if found else None)


def list_new_failures(state: EngineState, replicas: Iterable[Replica]) -> list[Replica]:
    """The members that have ended badly and are not known to have."""
    return [
        place
        for place in replicas
        if place.state is ReplicaState.FAILED
        and state.group(place.rank.group.name).replica_outcomes.get(place.rank.index) is not ReplicaOutcome.FAILED
    ]


def collect_failures(state: EngineState, replicas: Iterable[Replica], now: datetime) -> list[ReplicaFailure]:
    """How these members failed, the earliest first; of one whose pod is gone, what was known."""
    known = {(failure.replica, failure.attempt): failure for failure in state.failures}
    found = []
    for place in replicas:
        attempt = place.pod.attempt if place.pod else place.rank.attempt
        kept = known.get((place.display_name, attempt))
        if place.pod is None:
            found.append(kept or ReplicaFailure(replica=place.display_name, attempt=attempt, at=now))
            continue
        fresh = _make_failure(place, place.pod, now)
        # At the scene more can be quoted than was kept.
        found.append(replace(kept, message=fresh.message) if kept else fresh)
    return sorted(found, key=lambda failure: (failure.at, failure.replica))


def _make_failure(replica: Replica, pod: ObservedPod, now: datetime) -> ReplicaFailure:
    end, fault = pod.exit, pod.node_fault
    about = ReplicaFailure(
        replica=replica.display_name,
        attempt=pod.attempt,
        cause=replica.failure_cause,
        node=pod.node,
        at=pod.finished_at or (fault.since if fault else now),
        reason=fault.description if fault else "",
    )
    if pod.stuck_container is not None and replica.state is ReplicaState.SCHEDULED:
        return replace(
            about,
            cause=RestartCause.CREATION,
            container=pod.stuck_container.container,
            reason=pod.stuck_container.reason,
            message=pod.problem,
            at=pod.stuck_container.since,
        )
    if end is None:
        return about
    return replace(
        about,
        container=end.container,
        exit_code=end.code,
        signal=end.signal,
        reason=end.reason or about.reason,
        message=end.last_log_lines or end.message,
    )


def _last_line(text: str) -> str:
    """The last line of a quotation, if need be its end."""
    lines = text.splitlines()
    return lines[-1][-MAX_MESSAGE_CHARS:] if lines else ""
