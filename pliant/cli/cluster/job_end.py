"""Waits for the end of a job, follows its logs meanwhile, and reports the result."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from datetime import timedelta

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import WaitTimeout, wait_for_job
from pliant.cli.input.problems import first_pliant_error
from pliant.cli.local.run_result import EXIT_TIMEOUT, UNSUCCESSFUL_PHASE_EXITS
from pliant.cli.output.log_reader import JobLogPrinter
from pliant.cli.output.style import TerminalStyle
from pliant.model.state import JobPhase


async def follow_logs(target: ClusterTarget, job_object: JobObject) -> None:
    """Print the logs of all replicas until the job ends."""
    no_filter = {"attempt": None, "group": None, "rank": None, "container": None, "tail": None, "since": None}
    log_args = Namespace(**no_filter, prefix=True, previous=False, follow=True)
    async with asyncio.TaskGroup() as tasks:
        await JobLogPrinter(target.client, job_object, log_args, sys.stdout).follow(tasks)


async def report_end(target: ClusterTarget, job_object: JobObject, timeout: timedelta, *, follow: bool = False) -> int:
    """Wait until a job has ended, print the result, and return the exit code; `follow` prints its logs meanwhile."""
    style = TerminalStyle.for_stream(sys.stderr)
    latest: JobObject | None = None
    is_expired = False
    async with asyncio.TaskGroup() as tasks:
        log_task = tasks.create_task(follow_logs(target, job_object)) if follow else None
        try:
            latest = await wait_for_job(target, job_object, _has_ended, timeout, "ended")
        except* WaitTimeout as expired:
            is_expired = True
            if log_task is not None:
                log_task.cancel()
            sys.stderr.write(f"{style.red('✘')} {first_pliant_error(expired)}\n")
    return EXIT_TIMEOUT if is_expired else _print_result(job_object, latest, style)


def _has_ended(latest: JobObject | None) -> bool:
    return latest is None or (latest.state is not None and latest.state.phase.is_final)


def _print_result(job_object: JobObject, latest: JobObject | None, style: TerminalStyle) -> int:
    if latest is None or latest.state is None:
        sys.stderr.write(f"{style.red('✘')} {job_object.key.name} was deleted before it finished\n")
        return 1
    if latest.state.phase is JobPhase.SUCCEED:
        sys.stderr.write(f"{style.green('✔')} {job_object.key.name} succeeded\n")
        return 0
    code, result = UNSUCCESSFUL_PHASE_EXITS[latest.state.phase]
    sys.stderr.write(
        f"{style.red('✘')} {job_object.key.name} {result}: {latest.message} (pliant why {job_object.key.name})\n"
    )
    return code
