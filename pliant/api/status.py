"""The status of a job as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.output.job_summary import failure_text, last_log_lines, reported_training_progress
from pliant.cli.output.progress import TrainingProgress
from pliant.engine.plans.membership import job_in_effect
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.results import read_progress
from pliant.model.job import Job, ReplicaGroup
from pliant.model.messages import NO_MESSAGE
from pliant.model.state import EngineState, JobPhase, ReplicaCounts, ReplicaFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The training progress that the program of a job reported last."""

    step: int | None = None
    total: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other reported values, such as `loss`."""
    fraction: float | None = None
    """From 0 to 1; None if the total is unknown."""
    reported_by: str = ""
    """The replica that sent the latest report: `worker-0`."""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The replicas of one group."""

    name: str
    size: int
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    restarts: int = 0
    """Restarts, without replacements of replicas that were evicted, preempted or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCause:
    """The failure that ended a job or, until then, that led to the latest restart."""

    replica: str
    """`worker-1`"""
    text: str
    """`worker-1 exited with code 3`"""
    exit_code: int | None = None
    signal: str = ""
    """The name of the signal that ended the program, such as `SIGKILL`."""
    reason: str = ""
    """The reason that Kubernetes reports, such as `OOMKilled`, or the problem of the node."""
    node: str = ""
    attempt: int = 0
    at: datetime | None = None
    last_lines: tuple[str, ...] = ()
    """The last lines of the log of the replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What the cluster reports about a job at one time."""

    phase: str
    """`Pending`, `Creating`, `Running`, `Restarting`, `Suspended`, `Terminating`, or a final phase: `Succeed`,
    `Failed`, `Timeout`, `NodeFail` or `Preempted`; `Invalid` if the operator cannot use the spec."""
    reason: str = ""
    """The stable reason of the message (docs/reasons.md)."""
    message: str = ""
    is_finished: bool = False
    restarts: int = 0
    groups: tuple[GroupStatus, ...] = ()
    progress: JobProgress | None = None
    root_cause: RootCause | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def succeeded(self) -> bool:
        return self.phase == JobPhase.SUCCEED


def read_state(job_object: JobObject) -> JobState:
    """Return the state of a job as the API server returned it."""
    state = job_object.state
    cause = state.root_cause if state is not None else None
    return JobState(
        phase=job_object.phase,
        reason=(state.message if state else NO_MESSAGE).reason,
        message=job_object.message,
        is_finished=state is not None and state.phase.is_final,
        restarts=state.restart_count if state else 0,
        groups=_read_groups(job_object.job, state),
        progress=read_job_progress(job_object),
        root_cause=_to_root_cause(cause) if cause is not None else None,
        started_at=state.started_at if state else None,
        ended_at=state.ended_at if state else None,
    )


def read_job_progress(job_object: JobObject) -> JobProgress | None:
    """Return the reported progress; None if the program has not reported any."""
    report, progress = read_progress(raw_status(job_object.raw)), reported_training_progress(job_object)
    if report is None or progress is None:
        return None
    return to_job_progress(progress, reported_by=report.reported_by, at=report.time)


def to_job_progress(progress: TrainingProgress, *, reported_by: str = "", at: datetime | None = None) -> JobProgress:
    return JobProgress(
        step=progress.step,
        total=progress.total,
        metrics=dict(progress.metrics),
        fraction=progress.fraction_done,
        reported_by=reported_by,
        at=at,
    )


def _read_groups(job: Job | None, state: EngineState | None) -> tuple[GroupStatus, ...]:
    if job is None:
        return ()
    groups = (job_in_effect(job, state) if state else job).groups
    return tuple(_read_group(group, state) for group in groups)


def _read_group(group: ReplicaGroup, state: EngineState | None) -> GroupStatus:
    counts = (state.replica_counts if state else {}).get(group.name, ReplicaCounts())
    return GroupStatus(
        name=group.name,
        size=group.size,
        pending=counts.pending + counts.scheduled,
        running=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
        restarts=state.group(group.name).restarts_without_disruptions if state else 0,
    )


def _to_root_cause(failure: ReplicaFailure) -> RootCause:
    return RootCause(
        replica=failure.replica,
        text=failure_text(failure),
        exit_code=failure.exit_code,
        signal=failure.signal,
        reason=failure.reason,
        node=failure.node,
        attempt=failure.attempt,
        at=failure.at,
        last_lines=tuple(last_log_lines(failure)),
    )
