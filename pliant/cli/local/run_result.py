"""Summarizes how a run ended: text and exit code, and the root cause of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pliant.cli.durations import format_duration
from pliant.cli.explain.failure_hints import suggest_fix
from pliant.cli.local.run_state import FailedReplica, GroupStatusLine, RunState, StuckReplica
from pliant.cli.output.log_streams import LogStreams
from pliant.cli.output.style import TerminalStyle
from pliant.engine.status.messages import describe_exit
from pliant.model.english import pluralize, render, summarize_names
from pliant.model.job import Job
from pliant.model.messages import NO_MESSAGE, Message
from pliant.model.state import EngineState, JobPhase

RUNNING_POD_PHASE = "Running"
MAX_SUMMARY_ITEMS = 4
EXIT_SUCCESS = 0
EXIT_FAILED = 1
EXIT_TIMEOUT = 124
UNSUCCESSFUL_PHASE_EXITS = {
    JobPhase.FAILED: (EXIT_FAILED, "failed"),
    JobPhase.TIMEOUT: (3, "timed out"),
    JobPhase.NODE_FAIL: (4, "failed because its node failed"),
    JobPhase.PREEMPTED: (5, "was preempted"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The text and exit code of a run."""

    exit_code: int
    text: str


def summarize_finished_run(
    run_state: RunState, logs: LogStreams, elapsed: timedelta, style: TerminalStyle
) -> RunResult:
    """Summarize a run whose jobs have all ended."""
    lines, code = [], EXIT_SUCCESS
    for job in run_state.jobs:
        state = run_state.state_of(job)
        if state is not None and state.phase is JobPhase.SUCCEED:
            lines.append(_success_text(job, run_state, elapsed, style))
        else:
            lines += _failure_lines(job, run_state, logs, elapsed, style)
            job_code = UNSUCCESSFUL_PHASE_EXITS.get(state.phase, (EXIT_FAILED, ""))[0] if state else EXIT_FAILED
            code = EXIT_FAILED if EXIT_FAILED in (code, job_code) else code or job_code  # the first one counts
    return RunResult(exit_code=code, text="\n".join(lines))


def summarize_stuck_run(stuck_replicas: Sequence[StuckReplica], style: TerminalStyle) -> RunResult:
    """Summarize a run with replicas that can never start; replicas with the same reason share a line."""
    lines = [
        f"{style.red('✘')} {style.bold(f'{job} cannot start')}: {summarize_names(names)}: {reason}"
        for (job, reason), names in _group_by_reason(stuck_replicas).items()
    ]
    return RunResult(exit_code=EXIT_FAILED, text="\n".join(lines))


def _group_by_reason(stuck_replicas: Iterable[StuckReplica]) -> dict[tuple[str, str], list[str]]:
    names: dict[tuple[str, str], list[str]] = {}
    for stuck in stuck_replicas:
        names.setdefault((stuck.job.name, stuck.reason), []).append(stuck.replica_name)
    return names


def summarize_timed_out_run(
    run_state: RunState, logs: LogStreams, timeout: timedelta, style: TerminalStyle
) -> RunResult:
    """Summarize a run that reached --timeout: unfinished groups, their last log lines, and what blocks them."""
    lines = [f"{style.red('✘')} {style.bold(f'not finished after {format_duration(timeout)}')} (--timeout)"]
    for line in run_state.group_lines():
        job = next(job for job in run_state.jobs if job.key.name == line.job)
        if run_state.has_final_phase(job):
            continue
        lines.append(
            f"  {line.job}/{line.group}: {line.phase}, {line.replica_counts_text} running; {render(line.message)}"
        )
        lines += [f"    {style.dim(f'{name} │')} {text}" for name, text in _last_lines_of_group(run_state, logs, line)]
    for (job_name, reason), names in _group_by_reason(run_state.stuck_replicas()).items():
        lines.append(f"  {job_name}: {summarize_names(names)} not started: {reason}")
    return RunResult(exit_code=EXIT_TIMEOUT, text="\n".join(lines))


def _last_lines_of_group(run_state: RunState, logs: LogStreams, group_line: GroupStatusLine) -> list[tuple[str, str]]:
    pods = [pod for pod in run_state.pods_of_group(group_line) if pod.status.phase == RUNNING_POD_PHASE][
        :MAX_SUMMARY_ITEMS
    ]
    return [(run_state.log_prefix(pod), logs.last_line_of_pod(pod.metadata.uid) or "(no output)") for pod in pods]


def _success_text(job: Job, run_state: RunState, elapsed: timedelta, style: TerminalStyle) -> str:
    state = run_state.state_of(job)
    groups = [group for group in run_state.job_in_effect(job).groups if not group.is_master]
    sizes = [pluralize(group.size, group.name) for group in groups if group.size or job.master is None]
    total = sum(group.size for group in groups)
    replicas = ", ".join(sizes) if len(sizes) <= MAX_SUMMARY_ITEMS else f"{total} replicas in {len(sizes)} groups"
    result = style.bold(f"{job.key.name} succeeded")
    reports = [str(progress) for group in job.groups if (progress := run_state.progress_from_logs(job, group))]
    progress_text = f"; {'; '.join(list(dict.fromkeys(reports))[:MAX_SUMMARY_ITEMS])}" if reports else ""
    # A fault-tolerant job may succeed with failed replicas.
    failures = [f"{each.replica_name} {describe_exit(each.pod.exit)}" for each in run_state.unrecovered_failures(job)]
    lost = "" if failures else _lost_replicas_text(job, state)
    details = f"{replicas}{_restarts_text(state)}{lost}{progress_text}"
    text = f"{style.green('✔')} {result} in {format_duration(elapsed)} ({details})"
    return f"{text}, with failed replicas: {summarize_names(failures)}" if failures else text


def _lost_replicas_text(job: Job, state: EngineState | None) -> str:
    """Return how many replicas failed for good, if their failures were not observed."""
    if state is None or job.master is not None:  # the master replaces failed replicas itself
        return ""
    lost = sum(each.failed for each in state.replica_counts.values())
    return f", {lost} lost" if lost else ""


def _restarts_text(state: EngineState | None) -> str:
    total = state.restart_count if state else 0
    return f", {pluralize(total, 'restart')}" if total else ""


def _failure_lines(
    job: Job, run_state: RunState, logs: LogStreams, elapsed: timedelta, style: TerminalStyle
) -> list[str]:
    if run_state.was_deleted(job):
        result = style.bold(f"{job.key.name} was deleted")
        return [f"{style.red('✘')} {result} after {format_duration(elapsed)}, before it finished"]
    state = run_state.state_of(job)
    phase = UNSUCCESSFUL_PHASE_EXITS.get(state.phase, (EXIT_FAILED, "failed"))[1] if state else "failed"
    message = state.message if state else NO_MESSAGE
    text = render(message) if state else "not reconciled by an operator"
    result = style.bold(f"{job.key.name} {phase}")
    lines = [f"{style.red('✘')} {result} after {format_duration(elapsed)}{_restarts_text(state)}: {text}"]
    # A timeout or preemption is not caused by a failed replica.
    is_by_failure = state is None or state.phase in (JobPhase.FAILED, JobPhase.NODE_FAIL)
    cause = run_state.root_cause(job) if is_by_failure else None
    if cause is None:
        return lines
    tail = logs.last_lines(cause.pod.uid, cause.pod.exit.container if cause.pod.exit else "")
    fix = suggest_fix(cause.pod.exit, tail, run_state.local_programs(job))
    return [
        *lines,
        *_root_cause_lines(cause, message, tail, style),
        *([f"  {style.bold('suggestion')}: {fix}"] if fix else []),
    ]


def _first_replica(message: Message) -> str:
    """Return the replica that a message names first; empty if it names none."""
    while message.details:
        message = message.details[0]
    return str(message.parameters.get("replica", ""))


def _root_cause_lines(failure: FailedReplica, message: Message, tail: Sequence[str], style: TerminalStyle) -> list[str]:
    """Describe the root cause without repeating what the message of the job contains."""
    container = failure.pod.exit.container if failure.pod.exit else ""
    location = f"pod {failure.pod.name}" + (f", container {container}" if container else "")
    text = f"{failure.replica_name} {describe_exit(failure.pod.exit)}"
    is_named = _first_replica(message) == failure.replica_name
    lines = [f"  root cause: {location}" if is_named else f"  root cause: {text} ({location})"]
    if tail:
        lines += ["  last log lines:", *(f"    {style.dim('│')} {line}" for line in tail)]
    return lines
