"""The status of a kind made from DLJob: how the job is, how each replica is, and how each of them ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, cast, overload

import msgspec
from msgspec.structs import replace

from pliant.frontends.conditions import Condition, history_in, moved_to
from pliant.frontends.dljob_types import DLJobStatus, Exit, ReplicaStatus, TypeStatus
from pliant.frontends.memory import blob_of, plain
from pliant.frontends.results import durations_in, failure_words, progress_in
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.labels import member_group, member_name
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import GroupCounts, Phase

SUCCEEDED, STOPPED, PENDING = "Succeeded", "Stopped", "Pending"
MOST_TOLD = 200
"""Replicas that have a line of their own: an object holds about a megabyte."""
_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def rendered_status(status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The whole status: the same arguments always give the same answer."""
    state, counts = status.state, status.counts
    # An end that is decided never changes: people need not wait until the last pod is cleared away.
    phase = state.verdict.phase if state.verdict else state.phase
    word = SUCCEEDED if phase is Phase.SUCCEED else str(phase)
    at = _seconds(state.written_at or state.started_at)
    ended = state.verdict.at if state.verdict else state.ended_at
    present = Condition(type=word, status="True", reason=f"{job.owner.kind}{word}", message=state.message)
    words = DLJobStatus(
        phase=word,
        reason=present.reason,
        message=state.message,
        ready=f"{sum(each.active for each in counts.values())}/{sum(each.size for each in counts.values())}",
        restarts=state.restarts,
        start_time=_seconds(state.started_at),
        running_time=_seconds(state.running_at),
        completion_time=_seconds(ended),
        duration=_duration(state.started_at, ended),
        durations=durations_in(state),
        progress=progress_in(previous),
        first_cause=failure_words(state.first_cause) if state.first_cause else None,
        replica_types={name: _type_status(each) for name, each in counts.items()},
        replica_statuses=_chosen(_replica_statuses(status, previous, job)),
        conditions=moved_to(history_in(previous), present, at),
        last_reconcile_time=at,
        pliant=blob_of(state),
    )
    return cast("dict[str, Any]", plain(words))


def _type_status(counts: GroupCounts) -> TypeStatus:
    return TypeStatus(
        active=counts.active,
        pending=counts.pending + counts.scheduled + counts.restarting,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )


def _replica_statuses(status: JobStatus, previous: Mapping[str, Any], job: Job) -> Iterable[ReplicaStatus]:
    """One for each replica, in order; what is no longer seen is known from the previous status."""
    before = {row.name: row for row in _rows_in(previous)}
    if status.pods is None:
        yield from before.values()
        return
    pods = {pod.name: pod for pod in status.pods}
    is_over = status.state.verdict is not None or status.state.phase.is_final
    for group in job.groups:
        size = status.counts[group.name].size if group.name in status.counts else group.size
        for index in range(size):
            name = member_name(job, group.name, index)
            born = ReplicaStatus(name=name, replica_type=member_group(group.name), index=index, phase=PENDING)
            row = before.get(name, born)
            pod = pods.get(name)
            yield _seen(row, pod) if pod and not pod.is_leaving else _absent(row, is_over)


def _seen(row: ReplicaStatus, pod: ObservedPod) -> ReplicaStatus:
    """A row brought up to date with its pod."""
    is_over = pod.phase in _ENDED
    return replace(
        row,
        phase=str(pod.phase),
        node=pod.node,
        restarts=row.restarts + (1 if pod.attempt > row.attempt else 0),
        attempt=pod.attempt,
        start_time=_seconds(pod.started_at),
        completion_time=_seconds(pod.finished_at) if is_over else None,
        duration=_duration(pod.started_at, pod.finished_at) if is_over else "",
        last_exit=_exit(pod) if is_over else row.last_exit,
    )


def _absent(row: ReplicaStatus, is_over: bool) -> ReplicaStatus:
    """A row whose pod is gone or going: an end of its own stands, what it does on its way out does not count."""
    if row.phase in _ENDED and (is_over or row.phase == SUCCEEDED):
        return row
    return replace(row, phase=STOPPED if is_over else PENDING, completion_time=None, duration="")


def _exit(pod: ObservedPod) -> Exit:
    if pod.phase is PodPhase.SUCCEEDED:
        return Exit(exit_code=0, reason="Completed", time=_seconds(pod.finished_at))
    end = pod.exit
    if end is None:
        return Exit(time=_seconds(pod.finished_at))
    return Exit(
        exit_code=end.code,
        signal=end.signal,
        reason=end.reason,
        message=end.message,
        time=_seconds(pod.finished_at),
    )


def _chosen(rows: Iterable[ReplicaStatus]) -> list[ReplicaStatus]:
    """As many as may be told, those with a bad end or a restart first; in order."""
    every = list(rows)
    if len(every) <= MOST_TOLD:
        return every
    remarkable = [row for row in every if row.restarts or (row.last_exit and row.last_exit.exit_code != 0)]
    chosen = {row.name for row in [*remarkable, *every][:MOST_TOLD]}
    return [row for row in every if row.name in chosen]


def _rows_in(status: Mapping[str, Any]) -> Iterable[ReplicaStatus]:
    entries = status.get("replicaStatuses")
    for entry in entries if isinstance(entries, list) else ():
        try:
            yield msgspec.convert(entry, ReplicaStatus)
        except msgspec.ValidationError:
            continue  # not words of ours


def _duration(start: datetime | None, end: datetime | None) -> str:
    """`1h2m3s`; empty while there is no end."""
    if start is None or end is None:
        return ""
    seconds = int(max(end - start, timedelta(0)).total_seconds())
    parts = {"h": seconds // 3600, "m": seconds // 60 % 60, "s": seconds % 60}
    return "".join(f"{number}{unit}" for unit, number in parts.items() if number) or "0s"


@overload
def _seconds(moment: datetime) -> datetime: ...
@overload
def _seconds(moment: None) -> None: ...
def _seconds(moment: datetime | None) -> datetime | None:
    """Times in a status are whole seconds."""
    return None if moment is None else moment.replace(microsecond=0)
