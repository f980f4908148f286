"""The status of a kubeflow.org job in its own words, and what can be learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.kubeflow.types import KubeflowJobCondition, KubeflowReplicaStatus
from pliant.frontends.kubeflow.types import KubeflowJobStatus as Words
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status.engine_state import dump_state, to_json_data
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.labels import normalize_group_name
from pliant.model.state import EngineState, JobPhase, ReplicaCounts, TimelineEntry

CREATED, RUNNING, RESTARTING, SUSPENDED = "Created", "Running", "Restarting", "Suspended"
SUCCEEDED, FAILED, INVALID = "Succeeded", "Failed", "Invalid"

_CONDITION_BY_PHASE = {
    JobPhase.PENDING: CREATED,
    JobPhase.CREATING: CREATED,
    JobPhase.RUNNING: RUNNING,
    JobPhase.RESTARTING: RESTARTING,
    JobPhase.SUSPENDED: SUSPENDED,
    JobPhase.SUCCEED: SUCCEEDED,
}
_END_REASONS = {JobPhase.TIMEOUT: "DeadlineExceeded", JobPhase.PREEMPTED: "Preempted", JobPhase.NODE_FAIL: "NodeFail"}
_EXCLUSIVE_CONDITIONS = (RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED)
"""Of these at most one is True."""


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state = status.state
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.outcome.phase if state.outcome else state.phase
    at = _truncate_to_seconds(state.status_written_at or state.started_at)
    kind = _CONDITION_BY_PHASE.get(phase, FAILED)
    reason = _END_REASONS.get(phase, f"{job.owner.kind}{kind}")
    ended = state.outcome.at if state.outcome else state.ended_at
    conditions = read_conditions(previous)
    if not conditions:
        born = KubeflowJobCondition(
            type=CREATED, status="True", reason=f"{job.owner.kind}{CREATED}", message="accepted"
        )
        conditions = (replace(born, last_update_time=at, last_transition_time=at),)
    words = Words(
        conditions=with_current_condition(
            conditions, KubeflowJobCondition(type=kind, status="True", reason=reason, message=state.message), at
        ),
        replica_statuses={name: _replica_status(job, name, each) for name, each in status.replica_counts.items()},
        start_time=_truncate_to_seconds(state.resumed_at or state.started_at),
        completion_time=_truncate_to_seconds(ended) if ended else None,
        last_reconcile_time=at,
        scaling=scaling_status(job, state),
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(words))


def with_current_condition(
    conditions: tuple[KubeflowJobCondition, ...], current: KubeflowJobCondition, at: datetime
) -> tuple[KubeflowJobCondition, ...]:
    """The conditions with the present one True and last, where people and programs look for it.

    Others that exclude it become False, of running and restarting only one is kept, and complaints go.
    """
    gone = {INVALID, current.type, _REPLACED_CONDITIONS.get(current.type, "")}
    before = next((entry for entry in conditions if entry.type == current.type), None)
    others = [_mark_false(entry, current, at) for entry in conditions if entry.type not in gone]
    if before is None:
        return (*others, replace(current, last_update_time=at, last_transition_time=at))
    return (*others, _update_condition(before, current, at))


_REPLACED_CONDITIONS = {RUNNING: RESTARTING, RESTARTING: RUNNING}


def _mark_false(condition: KubeflowJobCondition, current: KubeflowJobCondition, at: datetime) -> KubeflowJobCondition:
    if condition.type not in _EXCLUSIVE_CONDITIONS or condition.status != "True":
        return condition
    over = replace(condition, status="False", last_update_time=at, last_transition_time=at)
    if condition.type != SUSPENDED or current.type == SUSPENDED:
        return over
    return replace(over, reason=condition.reason.replace(SUSPENDED, "Resumed"), message="resumed")


def _update_condition(
    previous: KubeflowJobCondition, current: KubeflowJobCondition, at: datetime
) -> KubeflowJobCondition:
    same = ("type", "status", "reason", "message")
    if all(getattr(previous, name) == getattr(current, name) for name in same):
        return previous
    since = previous.last_transition_time if previous.status == current.status else at
    return replace(current, last_update_time=at, last_transition_time=since)


def render_rejection(problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The previous status, memory included, with the problem beside it; told once, it stays as it is."""
    history = read_conditions(previous)
    at = _truncate_to_seconds(now)
    complaint = KubeflowJobCondition(type=INVALID, status="True", reason="InvalidSpec", message=str(problem))
    if any((entry.type, entry.message) == (INVALID, complaint.message) for entry in history):
        return dict(previous)
    others = tuple(entry for entry in history if entry.type != INVALID)
    dated = replace(complaint, last_update_time=at, last_transition_time=at)
    return {**previous, "conditions": to_json_data((*others, dated)), "lastReconcileTime": to_json_data(at)}


def is_rejected_status(status: Mapping[str, Any]) -> bool:
    """Whether the status still complains about the spec."""
    return any(entry.type == INVALID for entry in read_conditions(status))


def state_from_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """A memory made from the words alone, for jobs of another operator: what ended stays so, what runs goes on."""
    try:
        words = msgspec.convert({key: status[key] for key in ("startTime", "completionTime") if status.get(key)}, Words)
    except msgspec.ValidationError:
        return None
    for entry in read_conditions(status):
        if entry.type in (SUCCEEDED, FAILED) and entry.status == "True":
            phase = JobPhase.SUCCEED if entry.type == SUCCEEDED else JobPhase.FAILED
            start = words.start_time or created_at
            end = words.completion_time or entry.last_transition_time or start
            return EngineState(phase=phase, message=entry.message, started_at=start, ended_at=end)
    if words.start_time is None:
        return None
    begun = TimelineEntry(at=words.start_time, reason=str(JobPhase.PENDING), message="begun under another operator")
    return EngineState(phase=JobPhase.PENDING, started_at=words.start_time, timeline=(begun,))


def read_conditions(status: Mapping[str, Any]) -> tuple[KubeflowJobCondition, ...]:
    """The conditions of a raw status; what is not a condition is left out."""
    entries = status.get("conditions")
    return tuple(filter(None, map(_decode_condition, entries))) if isinstance(entries, list) else ()


def _decode_condition(entry: Any) -> KubeflowJobCondition | None:
    try:
        return msgspec.convert(entry, KubeflowJobCondition)
    except msgspec.ValidationError:
        return None


def _replica_status(job: Job, group_name: str, counts: ReplicaCounts) -> KubeflowReplicaStatus:
    return KubeflowReplicaStatus(
        active=counts.pending + counts.scheduled + counts.active + counts.restarting,
        succeeded=counts.succeeded,
        failed=counts.failed,
        selector=f"training.kubeflow.org/job-name={job.key.name},"
        f"training.kubeflow.org/replica-type={normalize_group_name(group_name)}",
    )


def _truncate_to_seconds(timestamp: datetime) -> datetime:
    """Times in a status are whole seconds."""
    return timestamp.replace(microsecond=0)
