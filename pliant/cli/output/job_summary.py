"""Formats failures, phase durations and progress of a job."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.durations import format_age, format_duration
from pliant.cli.output.progress import TrainingProgress, parse_number
from pliant.engine.status.messages import describe_exit
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.results import read_progress
from pliant.model.observed import PodExit
from pliant.model.state import EngineState, JobPhase, ReplicaFailure, RestartCause

MAX_FAILURE_LOG_LINES = 8
_PHASE_WORDS = {
    JobPhase.PENDING: "queued",
    JobPhase.CREATING: "starting",
    JobPhase.RUNNING: "running",
    JobPhase.RESTARTING: "restarting",
    JobPhase.SUSPENDED: "suspended",
    JobPhase.TERMINATING: "terminating",
}


def failure_text(failure: ReplicaFailure) -> str:
    """Describe a failure: `worker-1 was killed by SIGKILL (exit code 137)`."""
    if failure.cause is RestartCause.CREATION and not failure.container:
        return f"{failure.replica} did not start: {failure.reason}"
    if failure.cause is RestartCause.CREATION:
        return f"{failure.replica} could not create container {failure.container} ({failure.reason})"
    if failure.cause is RestartCause.NODE and failure.exit_code is None:
        return f"{failure.replica} was lost: node {failure.node} {failure.reason}"
    return f"{failure.replica} {describe_exit(PodExit(code=failure.exit_code, reason=failure.reason))}"


def short_failure_text(failure: ReplicaFailure) -> str:
    """Describe a failure in a few words: `worker-1 SIGKILL`."""
    if failure.reason == "OOMKilled" or failure.exit_code is None:
        return f"{failure.replica} {failure.reason or 'failed'}"
    return f"{failure.replica} {failure.signal or f'exit {failure.exit_code}'}"


def failure_location_text(failure: ReplicaFailure, now: datetime) -> str:
    """Return where and when: `on node-1, container main, attempt 2, 5m ago`."""
    container = f", container {failure.container}" if failure.container else ""
    return f"on {failure.node or 'no node'}{container}, attempt {failure.attempt}, {format_age(now - failure.at)} ago"


def last_log_lines(failure: ReplicaFailure) -> list[str]:
    return failure.message.splitlines()[-MAX_FAILURE_LOG_LINES:]


def phase_durations_text(state: EngineState, now: datetime) -> str:
    """Return the time in each phase so far: `queued 2s, running 5m`."""
    seconds = dict(state.phase_seconds)
    if state.phase_start is not None and not state.phase.is_final:
        current = max((now - state.phase_start.since).total_seconds(), 0.0)
        seconds[state.phase_start.phase] = seconds.get(state.phase_start.phase, 0.0) + current
    parts = [
        f"{word} {format_duration(timedelta(seconds=seconds[phase]))}"
        for phase, word in _PHASE_WORDS.items()
        if seconds.get(phase, 0.0) >= 0.05  # shorter phases would be shown as 0.0s
    ]
    total = format_duration(timedelta(seconds=sum(seconds.values())))
    return f"{', '.join(parts)}; total {total}" if len(parts) > 1 else ", ".join(parts)


def reported_training_progress(job_object: JobObject) -> TrainingProgress | None:
    report = read_progress(raw_status(job_object.raw))
    if report is None:
        return None
    metrics = [(name, number) for name, text in report.metrics.items() if (number := parse_number(text)) is not None]
    return TrainingProgress(step=report.step, total=report.total, metrics=tuple(metrics))


def progress_reporter_name(job_object: JobObject) -> str:
    """Return the replica that reported last: `worker-0`."""
    report = read_progress(raw_status(job_object.raw))
    return report.reported_by if report else ""


def progress_detail_text(job_object: JobObject, now: datetime) -> str:
    report, progress = read_progress(raw_status(job_object.raw)), reported_training_progress(job_object)
    if report is None or progress is None:
        return ""
    percent = f" ({progress.fraction_done:.0%})" if progress.fraction_done is not None else ""
    by = f", {report.reported_by}" if report.reported_by else ""
    return f"{progress}{percent}{by}" + (f", {format_age(now - report.time)} ago" if report.time else "")


def message_with_progress(job_object: JobObject) -> str:
    """Return the message of a job and its progress in one line."""
    progress = reported_training_progress(job_object)
    if progress is None:
        return job_object.message
    return str(progress) if job_object.has_all_replicas_running else f"{job_object.message}; {progress}"
