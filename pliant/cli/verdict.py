"""Says how a run ended, in one line and an exit code; a failure comes with its first cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pliant.cli.advice import advice
from pliant.cli.board import Board, GroupLine, Loss, Stuck, restarts_of
from pliant.cli.durations import duration_text
from pliant.cli.logstreams import LogStreams
from pliant.cli.style import Style
from pliant.engine.sizing import sized
from pliant.engine.wording import counted, listing, manner_of
from pliant.model.job import Job
from pliant.model.state import Phase

RUNNING = "Running"
MOST_QUOTED = 4
EXIT_SUCCESS = 0
EXIT_FAILED = 1
EXIT_TIMEOUT = 124
ENDS = {
    Phase.FAILED: (EXIT_FAILED, "failed"),
    Phase.TIMEOUT: (3, "ran out of the time it was given"),
    Phase.NODE_FAIL: (4, "was lost with its node"),
    Phase.PREEMPTED: (5, "had to make room (preempted)"),
}
"""The exit code and the words for each bad end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The last words of a run."""

    code: int
    text: str


def verdict(board: Board, logs: LogStreams, took: timedelta, style: Style) -> Verdict:
    """The end of a run whose jobs have all ended."""
    parts, code = [], EXIT_SUCCESS
    for job in board.jobs:
        succeeded = job.state is not None and job.state.phase is Phase.SUCCEED
        code = code if succeeded else _worse(code, _code(job))
        parts += [_success(job, board, took, style)] if succeeded else _failure(job, board, logs, took, style)
    return Verdict(code=code, text="\n".join(parts))


def stuck_verdict(stuck: Sequence[Stuck], style: Style) -> Verdict:
    """The end of a run that has members which can never start; those with one reason share a line."""
    lines = [
        f"{style.red('✘')} {style.bold(f'{job} cannot start')}: {listing(titles)}: {why}"
        for (job, why), titles in _by_reason(stuck).items()
    ]
    return Verdict(code=EXIT_FAILED, text="\n".join(lines))


def _by_reason(stuck: Iterable[Stuck]) -> dict[tuple[str, str], list[str]]:
    """Members that do not start, by their job and what keeps them."""
    members: dict[tuple[str, str], list[str]] = {}
    for one in stuck:
        members.setdefault((one.job.name, one.why), []).append(one.title)
    return members


def timeout_verdict(board: Board, logs: LogStreams, limit: timedelta, style: Style) -> Verdict:
    """The end of a run that took too long: what was still going on, what it wrote last, and what kept it."""
    lines = [f"{style.red('✘')} {style.bold(f'not done after {duration_text(limit)}')} (--timeout)"]
    waiting = _by_reason(board.stuck())
    for line in board.lines():
        job = next(job for job in board.jobs if job.key.name == line.job)
        if job.state is not None and job.state.phase.is_final:
            continue
        lines.append(f"  {line.job}/{line.group}: {line.phase}, {line.count} running; {line.message}")
        lines += [f"    {style.dim(f'{name} │')} {said}" for name, said in _last_lines(board, logs, line)]
    for (job_name, why), titles in waiting.items():
        lines.append(f"  {job_name}: {listing(titles)} {'waits' if len(titles) == 1 else 'wait'}: {why}")
    return Verdict(code=EXIT_TIMEOUT, text="\n".join(lines))


def _last_lines(board: Board, logs: LogStreams, line: GroupLine) -> list[tuple[str, str]]:
    """What the first few members of a group wrote last: who hangs may have said why."""
    pods = [pod for pod in board.pods(line) if pod.status.phase == RUNNING][:MOST_QUOTED]
    return [(board.speaker(pod), logs.last_line(pod.metadata.uid) or "(nothing was written)") for pod in pods]


def _code(job: Job) -> int:
    return ENDS.get(job.state.phase, (EXIT_FAILED, ""))[0] if job.state else EXIT_FAILED


def _worse(code: int, other: int) -> int:
    """The exit code of a run with both ends: a failure counts most, then whatever came first."""
    return EXIT_FAILED if EXIT_FAILED in (code, other) else code or other


def _success(job: Job, board: Board, took: timedelta, style: Style) -> str:
    groups = [group for group in (sized(job, job.state) if job.state else job).groups if not group.is_control]
    sizes = [counted(group.size, group.name) for group in groups if group.size or not job.has_master]
    everybody = sum(group.size for group in groups)
    members = ", ".join(sizes) if len(sizes) <= MOST_QUOTED else f"{everybody} members of {len(sizes)} groups"
    said = style.bold(f"{job.key.name} succeeded")
    reports = [str(progress) for group in job.groups if (progress := board.progress(job, group))]
    reached = f"; {'; '.join(list(dict.fromkeys(reports))[:MOST_QUOTED])}" if reports else ""
    # A job that may lose members must not lose them in silence.
    losses = [f"{loss.title} {manner_of(loss.pod.exit)}" for loss in board.unmended(job)]
    lost = "" if losses else _lost(job)
    text = f"{style.green('✔')} {said} in {duration_text(took)} ({members}{_restarts(job)}{lost}{reached})"
    return f"{text}, although {listing(losses)}" if losses else text


def _lost(job: Job) -> str:
    """How many members a job did without, where nobody saw them go."""
    if job.state is None or job.has_master:  # which knows whom it has replaced
        return ""
    lost = sum(each.failed for each in job.state.counts.values())
    return f", {lost} lost" if lost else ""


def _restarts(job: Job) -> str:
    total = sum(restarts_of(job, group) for group in job.groups)
    return f", {counted(total, 'restart')}" if total else ""


def _failure(job: Job, board: Board, logs: LogStreams, took: timedelta, style: Style) -> list[str]:
    if board.was_deleted(job):
        said = style.bold(f"{job.key.name} was deleted")
        return [f"{style.red('✘')} {said} after {duration_text(took)}, before it had ended"]
    phase = ENDS.get(job.state.phase, (EXIT_FAILED, "failed"))[1] if job.state else "failed"
    message = job.state.message if job.state else "nobody looked after it"
    said = style.bold(f"{job.key.name} {phase}")
    lines = [f"{style.red('✘')} {said} after {duration_text(took)}{_restarts(job)}: {message}"]
    # Whoever ran out of time or had to make room did so for reasons of its own, whatever failed before.
    is_by_failure = job.state is None or job.state.phase in (Phase.FAILED, Phase.NODE_FAIL)
    loss = board.first_cause(job) if is_by_failure else None
    return lines + (_cause(loss, message, logs, style) if loss else [])


def _cause(loss: Loss, message: str, logs: LogStreams, style: Style) -> list[str]:
    """Who failed first, how and where; what the job's own message says already is not said again."""
    container = loss.pod.exit.container if loss.pod.exit else ""
    where = f"pod {loss.pod.name}" + (f", container {container}" if container else "")
    how = f"{loss.title} {manner_of(loss.pod.exit)}"
    lines = [f"  first cause: {where}" if message.startswith(how) else f"  first cause: {how} ({where})"]
    tail = logs.tail(loss.pod.uid, container)
    if tail:
        lines += ["  its last lines:", *(f"    {style.dim('│')} {line}" for line in tail)]
    if helps := advice(loss.pod.exit, tail):
        lines.append(f"  {style.bold('try')}: {helps}")
    return lines
