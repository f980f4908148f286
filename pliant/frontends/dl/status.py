"""The status of a kind made from DLJob: how the job is, how each replica is, and how each of them ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, cast, overload

import msgspec
from msgspec.structs import replace

from pliant.frontends.dl.types import DLJobStatus, DLReplicaExit, DLReplicaStatus, DLReplicaTypeStatus
from pliant.frontends.status.conditions import PhaseCondition, read_conditions, with_current_condition
from pliant.frontends.status.engine_state import dump_state, to_json_data
from pliant.frontends.status.results import failure_status, phase_durations, read_progress
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.labels import normalize_group_name, replica_pod_name
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import JobPhase, ReplicaCounts

SUCCEEDED, STOPPED, PENDING = "Succeeded", "Stopped", "Pending"
MAX_REPLICA_STATUSES = 200
"""Replicas that have a line of their own: an object holds about a megabyte."""
_FINISHED_POD_PHASES = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state, counts = status.state, status.replica_counts
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.outcome.phase if state.outcome else state.phase
    word = SUCCEEDED if phase is JobPhase.SUCCEED else str(phase)
    at = _truncate_to_seconds(state.status_written_at or state.started_at)
    ended = state.outcome.at if state.outcome else state.ended_at
    present = PhaseCondition(type=word, status="True", reason=f"{job.owner.kind}{word}", message=state.message)
    words = DLJobStatus(
        phase=word,
        reason=present.reason,
        message=state.message,
        ready=f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}",
        restarts=state.restart_count,
        start_time=_truncate_to_seconds(state.started_at),
        running_time=_truncate_to_seconds(state.first_running_at),
        completion_time=_truncate_to_seconds(ended),
        duration=_format_duration(state.started_at, ended),
        durations=phase_durations(state),
        progress=read_progress(previous),
        first_cause=failure_status(state.root_cause) if state.root_cause else None,
        replica_types={name: _replica_type_status(each) for name, each in counts.items()},
        replica_statuses=_limit_replica_statuses(_replica_statuses(status, previous, job)),
        conditions=with_current_condition(read_conditions(previous), present, at),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(words))


def _replica_type_status(counts: ReplicaCounts) -> DLReplicaTypeStatus:
    return DLReplicaTypeStatus(
        active=counts.active,
        pending=counts.pending + counts.scheduled + counts.restarting,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )


def _replica_statuses(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> Iterable[DLReplicaStatus]:
    """One for each replica, in order; what is no longer seen is known from the previous status."""
    before = {row.name: row for row in _read_replica_statuses(previous)}
    if status.observed_pods is None:
        yield from before.values()
        return
    pods = {pod.name: pod for pod in status.observed_pods}
    is_over = status.state.outcome is not None or status.state.phase.is_final
    for group in job.groups:
        size = status.replica_counts[group.name].size if group.name in status.replica_counts else group.size
        for index in range(size):
            name = replica_pod_name(job, group.name, index)
            born = DLReplicaStatus(name=name, replica_type=normalize_group_name(group.name), index=index, phase=PENDING)
            row = before.get(name, born)
            pod = pods.get(name)
            yield _update_from_pod(row, pod) if pod and not pod.is_terminating else _update_without_pod(row, is_over)


def _update_from_pod(replica_status: DLReplicaStatus, pod: ObservedPod) -> DLReplicaStatus:
    """A row brought up to date with its pod."""
    is_over = pod.phase in _FINISHED_POD_PHASES
    return replace(
        replica_status,
        phase=str(pod.phase),
        node=pod.node,
        restarts=replica_status.restarts + (1 if pod.attempt > replica_status.attempt else 0),
        attempt=pod.attempt,
        start_time=_truncate_to_seconds(pod.started_at),
        completion_time=_truncate_to_seconds(pod.finished_at) if is_over else None,
        duration=_format_duration(pod.started_at, pod.finished_at) if is_over else "",
        last_exit=_exit_of_pod(pod) if is_over else replica_status.last_exit,
    )


def _update_without_pod(replica_status: DLReplicaStatus, is_job_finished: bool) -> DLReplicaStatus:
    """A row whose pod is gone or going: an end of its own stands, what it does on its way out does not count."""
    if replica_status.phase in _FINISHED_POD_PHASES and (is_job_finished or replica_status.phase == SUCCEEDED):
        return replica_status
    return replace(replica_status, phase=STOPPED if is_job_finished else PENDING, completion_time=None, duration="")


def _exit_of_pod(pod: ObservedPod) -> DLReplicaExit:
    if pod.phase is PodPhase.SUCCEEDED:
        return DLReplicaExit(exit_code=0, reason="Completed", time=_truncate_to_seconds(pod.finished_at))
    end = pod.exit
    if end is None:
        return DLReplicaExit(time=_truncate_to_seconds(pod.finished_at))
    return DLReplicaExit(
        exit_code=end.code,
        signal=end.signal,
        reason=end.reason,
        message=end.message,
        time=_truncate_to_seconds(pod.finished_at),
    )


def _limit_replica_statuses(replica_statuses: Iterable[DLReplicaStatus]) -> list[DLReplicaStatus]:
    """As many as may be told, those with a bad end or a restart first; in order."""
    every = list(replica_statuses)
    if len(every) <= MAX_REPLICA_STATUSES:
        return every
    remarkable = [row for row in every if row.restarts or (row.last_exit and row.last_exit.exit_code != 0)]
    chosen = {row.name for row in [*remarkable, *every][:MAX_REPLICA_STATUSES]}
    return [row for row in every if row.name in chosen]


def _read_replica_statuses(status: Mapping[str, Any]) -> Iterable[DLReplicaStatus]:
    entries = status.get("replicaStatuses")
    for entry in entries if isinstance(entries, list) else ():
        try:
            yield msgspec.convert(entry, DLReplicaStatus)
        except msgspec.ValidationError:
            continue  # not words of ours


def _format_duration(start: datetime | None, end: datetime | None) -> str:
    """`1h2m3s`; empty while there is no end."""
    if start is None or end is None:
        return ""
    seconds = int(max(end - start, timedelta(0)).total_seconds())
    parts = {"h": seconds // 3600, "m": seconds // 60 % 60, "s": seconds % 60}
    return "".join(f"{number}{unit}" for unit, number in parts.items() if number) or "0s"


@overload
def _truncate_to_seconds(timestamp: datetime) -> datetime: ...
@overload
def _truncate_to_seconds(timestamp: None) -> None: ...
def _truncate_to_seconds(timestamp: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if timestamp is None else timestamp.replace(microsecond=0)
