"""What a job's memory and status say of its results, in words for people."""

from __future__ import annotations

from datetime import datetime, timedelta

from pliant.cli.durations import age_text, duration_text
from pliant.cli.jobs import Found
from pliant.cli.progress import Progress, figure
from pliant.engine.wording import manner_of
from pliant.frontends.memory import status_in
from pliant.frontends.results import progress_in
from pliant.model.observed import Exit
from pliant.model.state import Cause, EngineState, Failure, Phase

ALL_WELL = "every member runs"
"""What need not be said of a job that tells its steps."""
MOST_LINES = 8
_STAGES = {
    Phase.PENDING: "queued",
    Phase.CREATING: "starting",
    Phase.RUNNING: "running",
    Phase.RESTARTING: "restarting",
    Phase.SUSPENDED: "suspended",
    Phase.TERMINATING: "ending",
}


def failure_text(failure: Failure) -> str:
    """Who failed and how: `worker-1 was killed by SIGKILL (exit code 137)`."""
    if failure.cause is Cause.CREATION:
        return f"{failure.member} could not create container {failure.container} ({failure.reason})"
    if failure.cause is Cause.NODE and failure.code is None:
        return f"{failure.member} was lost: node {failure.node} {failure.reason}"
    return f"{failure.member} {manner_of(Exit(code=failure.code, reason=failure.reason))}"


def failure_brief(failure: Failure) -> str:
    """The same as shortly as can be: `worker-1 SIGKILL`."""
    if failure.reason == "OOMKilled" or failure.code is None:
        return f"{failure.member} {failure.reason or 'failed'}"
    return f"{failure.member} {failure.signal or f'exit {failure.code}'}"


def failure_place(failure: Failure, now: datetime) -> str:
    """Where and when: `on node-1, container main, attempt 2, 5m ago`."""
    container = f", container {failure.container}" if failure.container else ""
    return (
        f"on {failure.node or 'no node'}{container}, attempt {failure.attempt}, {age_text(now - failure.at)} ago"
    )


def last_words(failure: Failure) -> list[str]:
    """What a member said last, as lines."""
    return failure.message.splitlines()[-MOST_LINES:]


def durations_text(state: EngineState, now: datetime) -> str:
    """Where the time went, the present phase included: `queued 2s, running 5m`."""
    spent = dict(state.spent)
    if state.stage is not None and not state.phase.is_final:
        so_far = max((now - state.stage.since).total_seconds(), 0.0)
        spent[state.stage.phase] = spent.get(state.stage.phase, 0.0) + so_far
    told = [
        f"{word} {duration_text(timedelta(seconds=spent[phase]))}"
        for phase, word in _STAGES.items()
        if spent.get(phase, 0.0) >= 0.05  # else it would be told as nothing
    ]
    total = duration_text(timedelta(seconds=sum(spent.values())))
    return f"{', '.join(told)}; {total} in all" if len(told) > 1 else ", ".join(told)


def progress_of(one: Found) -> Progress | None:
    """How far a job said it has come."""
    told = progress_in(status_in(one.raw))
    if told is None:
        return None
    found = [(name, number) for name, text in told.metrics.items() if (number := figure(text)) is not None]
    return Progress(step=told.step, total=told.total, figures=tuple(found))


def reporter_of(one: Found) -> str:
    """Who reported last: `worker-0`."""
    told = progress_in(status_in(one.raw))
    return told.by if told else ""


def progress_page(one: Found, now: datetime) -> str:
    """The same with who said so and when; empty if nobody did."""
    told, progress = progress_in(status_in(one.raw)), progress_of(one)
    if told is None or progress is None:
        return ""
    share = f" ({progress.share:.0%})" if progress.share is not None else ""
    by = f", {told.by}" if told.by else ""
    return f"{progress}{share}{by}" + (f", {age_text(now - told.at)} ago" if told.at else "")


def message_with_progress(one: Found) -> str:
    """Where a job stands and how far it has come, in one line."""
    progress = progress_of(one)
    if progress is None:
        return one.message
    return str(progress) if one.message == ALL_WELL else f"{one.message}; {progress}"
