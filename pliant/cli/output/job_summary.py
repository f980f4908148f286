"""What a job's memory and status say of its results, in words for people."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.durations import format_age, format_duration
from pliant.cli.output.progress import GroupProgress, parse_number
from pliant.engine.status.messages import describe_exit
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.results import read_progress
from pliant.model.observed import PodExit
from pliant.model.state import EngineState, JobPhase, ReplicaFailure, RestartCause

ALL_RUNNING_MESSAGE = "all replicas are running"
"""What need not be said of a job that tells its steps."""
MAX_MESSAGE_LINES = 8
_PHASE_WORDS = {
    JobPhase.PENDING: "queued",
    JobPhase.CREATING: "starting",
    JobPhase.RUNNING: "running",
    JobPhase.RESTARTING: "restarting",
    JobPhase.SUSPENDED: "suspended",
    JobPhase.TERMINATING: "ending",
}


def failure_text(failure: ReplicaFailure) -> str:
    """Who failed and how: `worker-1 was killed by SIGKILL (exit code 137)`."""
    if failure.cause is RestartCause.CREATION:
        return f"{failure.replica} could not create container {failure.container} ({failure.reason})"
    if failure.cause is RestartCause.NODE and failure.exit_code is None:
        return f"{failure.replica} was lost: node {failure.node} {failure.reason}"
    return f"{failure.replica} {describe_exit(PodExit(code=failure.exit_code, reason=failure.reason))}"


def failure_summary(failure: ReplicaFailure) -> str:
    """The same as shortly as can be: `worker-1 SIGKILL`."""
    if failure.reason == "OOMKilled" or failure.exit_code is None:
        return f"{failure.replica} {failure.reason or 'failed'}"
    return f"{failure.replica} {failure.signal or f'exit {failure.exit_code}'}"


def failure_location_text(failure: ReplicaFailure, now: datetime) -> str:
    """Where and when: `on node-1, container main, attempt 2, 5m ago`."""
    container = f", container {failure.container}" if failure.container else ""
    return f"on {failure.node or 'no node'}{container}, attempt {failure.attempt}, {format_age(now - failure.at)} ago"


def last_log_lines(failure: ReplicaFailure) -> list[str]:
    """What a member said last, as lines."""
    return failure.message.splitlines()[-MAX_MESSAGE_LINES:]


def phase_durations_text(state: EngineState, now: datetime) -> str:
    """Where the time went, the present phase included: `queued 2s, running 5m`."""
    spent = dict(state.phase_seconds)
    if state.phase_start is not None and not state.phase.is_final:
        so_far = max((now - state.phase_start.since).total_seconds(), 0.0)
        spent[state.phase_start.phase] = spent.get(state.phase_start.phase, 0.0) + so_far
    told = [
        f"{word} {format_duration(timedelta(seconds=spent[phase]))}"
        for phase, word in _PHASE_WORDS.items()
        if spent.get(phase, 0.0) >= 0.05  # else it would be told as nothing
    ]
    total = format_duration(timedelta(seconds=sum(spent.values())))
    return f"{', '.join(told)}; {total} in all" if len(told) > 1 else ", ".join(told)


def job_progress(job_object: JobObject) -> GroupProgress | None:
    """How far a job said it has come."""
    told = read_progress(raw_status(job_object.raw))
    if told is None:
        return None
    found = [(name, number) for name, text in told.metrics.items() if (number := parse_number(text)) is not None]
    return GroupProgress(step=told.step, total=told.total, metrics=tuple(found))


def progress_reporter(job_object: JobObject) -> str:
    """Who reported last: `worker-0`."""
    told = read_progress(raw_status(job_object.raw))
    return told.reported_by if told else ""


def progress_detail_text(job_object: JobObject, now: datetime) -> str:
    """The same with who said so and when; empty if nobody did."""
    told, progress = read_progress(raw_status(job_object.raw)), job_progress(job_object)
    if told is None or progress is None:
        return ""
    share = f" ({progress.fraction_done:.0%})" if progress.fraction_done is not None else ""
    by = f", {told.reported_by}" if told.reported_by else ""
    return f"{progress}{share}{by}" + (f", {format_age(now - told.time)} ago" if told.time else "")


def message_with_progress(job_object: JobObject) -> str:
    """Where a job stands and how far it has come, in one line."""
    progress = job_progress(job_object)
    if progress is None:
        return job_object.message
    return str(progress) if job_object.message == ALL_RUNNING_MESSAGE else f"{job_object.message}; {progress}"
