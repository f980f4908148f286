"""Says how a run ended, in one line and an exit code; a failure comes with its first cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pliant.cli.durations import format_duration
from pliant.cli.explain.failure_hints import suggest_fix
from pliant.cli.local.run_state import FailedReplica, GroupStatusLine, RunState, StuckReplica, group_restarts
from pliant.cli.output.log_streams import LogStreams
from pliant.cli.output.style import TerminalStyle
from pliant.engine.sizing import with_applied_sizes
from pliant.engine.status.messages import describe_exit, join_names, pluralize
from pliant.model.job import Job
from pliant.model.state import JobPhase

RUNNING_PHASE = "Running"
MAX_QUOTED = 4
EXIT_SUCCESS = 0
EXIT_FAILED = 1
EXIT_TIMEOUT = 124
PHASE_EXITS = {
    JobPhase.FAILED: (EXIT_FAILED, "failed"),
    JobPhase.TIMEOUT: (3, "ran out of the time it was given"),
    JobPhase.NODE_FAIL: (4, "was lost with its node"),
    JobPhase.PREEMPTED: (5, "had to make room (preempted)"),
}
"""The exit code and the words for each bad end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """The last words of a run."""

    exit_code: int
    text: str


def summarize_finished_run(
    run_state: RunState, logs: LogStreams, elapsed: timedelta, style: TerminalStyle
) -> SessionResult:
    """The end of a run whose jobs have all ended."""
    parts, code = [], EXIT_SUCCESS
    for job in run_state.jobs:
        succeeded = job.state is not None and job.state.phase is JobPhase.SUCCEED
        code = code if succeeded else _worse_exit_code(code, _job_exit_code(job))
        parts += (
            [_success_text(job, run_state, elapsed, style)]
            if succeeded
            else _failure_lines(job, run_state, logs, elapsed, style)
        )
    return SessionResult(exit_code=code, text="\n".join(parts))


def summarize_stuck_run(stuck_replicas: Sequence[StuckReplica], style: TerminalStyle) -> SessionResult:
    """The end of a run that has members which can never start; those with one reason share a line."""
    lines = [
        f"{style.red('✘')} {style.bold(f'{job} cannot start')}: {join_names(titles)}: {why}"
        for (job, why), titles in _group_by_reason(stuck_replicas).items()
    ]
    return SessionResult(exit_code=EXIT_FAILED, text="\n".join(lines))


def _group_by_reason(stuck_replicas: Iterable[StuckReplica]) -> dict[tuple[str, str], list[str]]:
    """Members that do not start, by their job and what keeps them."""
    members: dict[tuple[str, str], list[str]] = {}
    for one in stuck_replicas:
        members.setdefault((one.job.name, one.reason), []).append(one.replica_name)
    return members


def summarize_timed_out_run(
    run_state: RunState, logs: LogStreams, timeout: timedelta, style: TerminalStyle
) -> SessionResult:
    """The end of a run that took too long: what was still going on, what it wrote last, and what kept it."""
    lines = [f"{style.red('✘')} {style.bold(f'not done after {format_duration(timeout)}')} (--timeout)"]
    waiting = _group_by_reason(run_state.stuck_replicas())
    for line in run_state.group_lines():
        job = next(job for job in run_state.jobs if job.key.name == line.job)
        if job.state is not None and job.state.phase.is_final:
            continue
        lines.append(f"  {line.job}/{line.group}: {line.phase}, {line.ready_text} running; {line.message}")
        lines += [f"    {style.dim(f'{name} │')} {said}" for name, said in _last_lines_of_group(run_state, logs, line)]
    for (job_name, why), titles in waiting.items():
        lines.append(f"  {job_name}: {join_names(titles)} {'waits' if len(titles) == 1 else 'wait'}: {why}")
    return SessionResult(exit_code=EXIT_TIMEOUT, text="\n".join(lines))


def _last_lines_of_group(run_state: RunState, logs: LogStreams, group_line: GroupStatusLine) -> list[tuple[str, str]]:
    """What the first few members of a group wrote last: who hangs may have said why."""
    pods = [pod for pod in run_state.pods_of_group(group_line) if pod.status.phase == RUNNING_PHASE][:MAX_QUOTED]
    return [
        (run_state.log_prefix(pod), logs.last_line_of_pod(pod.metadata.uid) or "(nothing was written)") for pod in pods
    ]


def _job_exit_code(job: Job) -> int:
    return PHASE_EXITS.get(job.state.phase, (EXIT_FAILED, ""))[0] if job.state else EXIT_FAILED


def _worse_exit_code(code: int, other: int) -> int:
    """The exit code of a run with both ends: a failure counts most, then whatever came first."""
    return EXIT_FAILED if EXIT_FAILED in (code, other) else code or other


def _success_text(job: Job, run_state: RunState, elapsed: timedelta, style: TerminalStyle) -> str:
    groups = [
        group for group in (with_applied_sizes(job, job.state) if job.state else job).groups if not group.is_master
    ]
    sizes = [pluralize(group.size, group.name) for group in groups if group.size or not job.has_master]
    everybody = sum(group.size for group in groups)
    members = ", ".join(sizes) if len(sizes) <= MAX_QUOTED else f"{everybody} members of {len(sizes)} groups"
    said = style.bold(f"{job.key.name} succeeded")
    reports = [str(progress) for group in job.groups if (progress := run_state.group_progress(job, group))]
    reached = f"; {'; '.join(list(dict.fromkeys(reports))[:MAX_QUOTED])}" if reports else ""
    # A job that may lose members must not lose them in silence.
    losses = [f"{loss.replica_name} {describe_exit(loss.pod.exit)}" for loss in run_state.unrecovered_failures(job)]
    lost = "" if losses else _lost_replicas_text(job)
    text = f"{style.green('✔')} {said} in {format_duration(elapsed)} ({members}{_restarts_text(job)}{lost}{reached})"
    return f"{text}, although {join_names(losses)}" if losses else text


def _lost_replicas_text(job: Job) -> str:
    """How many members a job did without, where nobody saw them go."""
    if job.state is None or job.has_master:  # which knows whom it has replaced
        return ""
    lost = sum(each.failed for each in job.state.replica_counts.values())
    return f", {lost} lost" if lost else ""


def _restarts_text(job: Job) -> str:
    total = sum(group_restarts(job, group) for group in job.groups)
    return f", {pluralize(total, 'restart')}" if total else ""


def _failure_lines(
    job: Job, run_state: RunState, logs: LogStreams, elapsed: timedelta, style: TerminalStyle
) -> list[str]:
    if run_state.was_deleted(job):
        said = style.bold(f"{job.key.name} was deleted")
        return [f"{style.red('✘')} {said} after {format_duration(elapsed)}, before it had ended"]
    phase = PHASE_EXITS.get(job.state.phase, (EXIT_FAILED, "failed"))[1] if job.state else "failed"
    message = job.state.message if job.state else "nobody looked after it"
    said = style.bold(f"{job.key.name} {phase}")
    lines = [f"{style.red('✘')} {said} after {format_duration(elapsed)}{_restarts_text(job)}: {message}"]
    # Whoever ran out of time or had to make room did so for reasons of its own, whatever failed before.
    is_by_failure = job.state is None or job.state.phase in (JobPhase.FAILED, JobPhase.NODE_FAIL)
    loss = run_state.root_cause(job) if is_by_failure else None
    return lines + (_root_cause_lines(loss, message, logs, style) if loss else [])


def _root_cause_lines(failure: FailedReplica, message: str, logs: LogStreams, style: TerminalStyle) -> list[str]:
    """Who failed first, how and where; what the job's own message says already is not said again."""
    container = failure.pod.exit.container if failure.pod.exit else ""
    where = f"pod {failure.pod.name}" + (f", container {container}" if container else "")
    how = f"{failure.replica_name} {describe_exit(failure.pod.exit)}"
    lines = [f"  first cause: {where}" if message.startswith(how) else f"  first cause: {how} ({where})"]
    tail = logs.last_lines(failure.pod.uid, container)
    if tail:
        lines += ["  its last lines:", *(f"    {style.dim('│')} {line}" for line in tail)]
    if helps := suggest_fix(failure.pod.exit, tail):
        lines.append(f"  {style.bold('try')}: {helps}")
    return lines
