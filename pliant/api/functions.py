"""The functions of `pliant`: each waits for its result."""

from __future__ import annotations

from typing import TextIO, Unpack

from pliant.api import async_functions
from pliant.api.async_cluster import AsyncTemporaryCluster
from pliant.api.async_job import AsyncJobHandle
from pliant.api.background_loop import background
from pliant.api.cluster import TemporaryCluster
from pliant.api.job import JobHandle
from pliant.api.options import (
    ClusterOptions,
    JobSource,
    RunOptions,
    SelectionOptions,
    SubmitOptions,
    Timeout,
    to_timedelta,
)
from pliant.api.run_job import RunRequest


def run(
    source: JobSource,
    *,
    timeout: Timeout = None,
    check: bool = False,
    quiet: bool = False,
    **options: Unpack[RunOptions],
) -> JobHandle:
    """Run a job on a temporary cluster of this process to its end, and show its logs.

    `source` is a Python program, a YAML file, or an object. The keywords are those of `RunOptions`. The job is
    returned however it ends; with `check`, JobFailed is raised unless it has succeeded.
    """
    limit = to_timedelta(timeout)

    async def start(out: TextIO, err: TextIO) -> AsyncJobHandle:
        request = RunRequest(out=out, err=err, timeout=limit, is_quiet=quiet)
        return await async_functions.run_shown(source, options, request)

    job = JobHandle(background.run_with_output(start))
    if check:
        job.raise_if_failed()
    return job


def submit(source: JobSource, **options: Unpack[SubmitOptions]) -> JobHandle:
    """Create a job on a running cluster, which is selected as `pliant submit` does; return at once."""
    return JobHandle(background.run(async_functions.submit(source, **options)))


def submit_all(source: JobSource, **options: Unpack[SubmitOptions]) -> list[JobHandle]:
    """Create all jobs of a source on a running cluster; return at once."""
    return [JobHandle(job) for job in background.run(async_functions.submit_all(source, **options))]


def get(name: str, **selection: Unpack[SelectionOptions]) -> JobHandle:
    """Return the job with the name NAME or KIND/NAME on a running cluster."""
    return JobHandle(background.run(async_functions.get(name, **selection)))


def list_jobs(**selection: Unpack[SelectionOptions]) -> list[JobHandle]:
    """Return all jobs of a namespace on a running cluster."""
    return [JobHandle(job) for job in background.run(async_functions.list_jobs(**selection))]


def cluster(**options: Unpack[ClusterOptions]) -> TemporaryCluster:
    """Return a temporary cluster of this process: `with pliant.cluster(nodes=2) as cluster:`."""
    return TemporaryCluster(AsyncTemporaryCluster.with_options(options))
