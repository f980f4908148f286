"""Render the status of a DLJob: the job, its replica types and each replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from pliant.frontends.dl.types import DLJobStatus, DLReplicaExit, DLReplicaStatus, DLReplicaTypeStatus
from pliant.frontends.status import results
from pliant.frontends.status.conditions import new_current_phase, read_phase_conditions, with_current_phase
from pliant.frontends.status.engine_state import decode_valid_items, dump_state, to_json_data, truncate_to_seconds
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.labels import normalize_group_name, replica_pod_name
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import JobPhase, ReplicaCounts

SUCCEEDED, STOPPED, PENDING = "Succeeded", "Stopped", "Pending"
MAX_REPLICA_STATUSES = 200
"""Replicas with a status of their own: an object may have a size of about 1 MiB."""
_FINISHED_POD_PHASES = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    state, counts = status.state, status.replica_counts
    phase = results.decided_phase(state)
    phase_name = SUCCEEDED if phase is JobPhase.SUCCEED else str(phase)
    at = truncate_to_seconds(state.status_written_at or state.started_at)
    ended = results.decided_at(state)
    reason = f"{job.owner.kind}{phase_name}"
    current = new_current_phase(phase_name, reason, state)
    rendered = DLJobStatus(
        phase=phase_name,
        reason=reason,
        message=render(state.message),
        ready=results.format_ready_replicas(counts),
        restarts=state.restart_count,
        start_time=truncate_to_seconds(state.started_at),
        running_time=truncate_to_seconds(state.first_running_at),
        completion_time=truncate_to_seconds(ended),
        duration=_format_duration(state.started_at, ended),
        durations=results.phase_durations(state),
        progress=results.read_progress(previous),
        root_cause=results.root_cause_status(state),
        replica_types={name: _replica_type_status(each) for name, each in counts.items()},
        replica_statuses=_limit_replica_statuses(_replica_statuses(status, previous, job)),
        conditions=with_current_phase(read_phase_conditions(previous), current, at),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(rendered))


def _replica_type_status(counts: ReplicaCounts) -> DLReplicaTypeStatus:
    return DLReplicaTypeStatus(
        active=counts.active,
        pending=counts.pending + counts.scheduled + counts.restarting,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )


def _replica_statuses(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> Iterable[DLReplicaStatus]:
    """Yield the status of each replica in order; replicas without a pod keep their previous status."""
    before = {each.name: each for each in decode_valid_items(DLReplicaStatus, previous.get("replicaStatuses"))}
    if status.observed_pods is None:
        yield from before.values()
        return
    pods = {pod.name: pod for pod in status.observed_pods}
    is_over = status.state.outcome is not None or status.state.phase.is_final
    for group in job.groups:
        size = status.replica_counts[group.name].size if group.name in status.replica_counts else group.size
        for index in range(size):
            name = replica_pod_name(job, group.name, index)
            group_name = normalize_group_name(group.name)
            initial = DLReplicaStatus(name=name, replica_type=group_name, index=index, phase=PENDING)
            replica, pod = before.get(name, initial), pods.get(name)
            if pod and not pod.is_terminating:
                yield _update_from_pod(replica, pod)
            else:
                yield _update_without_pod(replica, is_over)


def _update_from_pod(replica_status: DLReplicaStatus, pod: ObservedPod) -> DLReplicaStatus:
    is_finished = pod.phase in _FINISHED_POD_PHASES
    return replace(
        replica_status,
        phase=str(pod.phase),
        node=pod.node,
        restarts=replica_status.restarts + (1 if pod.attempt > replica_status.attempt else 0),
        attempt=pod.attempt,
        start_time=truncate_to_seconds(pod.started_at),
        completion_time=truncate_to_seconds(pod.finished_at) if is_finished else None,
        duration=_format_duration(pod.started_at, pod.finished_at) if is_finished else "",
        last_exit=_exit_of_pod(pod) if is_finished else replica_status.last_exit,
    )


def _update_without_pod(replica_status: DLReplicaStatus, is_job_finished: bool) -> DLReplicaStatus:
    """Return the status of a replica whose pod is deleted or terminating; a replica that finished before stays so."""
    if replica_status.phase in _FINISHED_POD_PHASES and (is_job_finished or replica_status.phase == SUCCEEDED):
        return replica_status
    return replace(replica_status, phase=STOPPED if is_job_finished else PENDING, completion_time=None, duration="")


def _exit_of_pod(pod: ObservedPod) -> DLReplicaExit:
    time, end = truncate_to_seconds(pod.finished_at), pod.exit
    if pod.phase is PodPhase.SUCCEEDED:
        return DLReplicaExit(exit_code=0, reason="Completed", time=time)
    if end is None:
        return DLReplicaExit(time=time)
    return DLReplicaExit(exit_code=end.code, signal=end.signal, reason=end.reason, message=end.message, time=time)


def _limit_replica_statuses(replica_statuses: Iterable[DLReplicaStatus]) -> list[DLReplicaStatus]:
    """Return at most MAX_REPLICA_STATUSES statuses in order; those with a failure or restart take precedence."""
    all_statuses = list(replica_statuses)
    if len(all_statuses) <= MAX_REPLICA_STATUSES:
        return all_statuses
    important = [each for each in all_statuses if each.restarts or (each.last_exit and each.last_exit.exit_code != 0)]
    names = {each.name for each in [*important, *all_statuses][:MAX_REPLICA_STATUSES]}
    return [each for each in all_statuses if each.name in names]


def _format_duration(start: datetime | None, end: datetime | None) -> str:
    """Return a duration such as `1h2m3s`; empty without start or end."""
    if start is None or end is None:
        return ""
    seconds = int(max(end - start, timedelta(0)).total_seconds())
    parts = {"h": seconds // 3600, "m": seconds // 60 % 60, "s": seconds % 60}
    return "".join(f"{number}{unit}" for unit, number in parts.items() if number) or "0s"
