"""The functions of `pliant.aio`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Unpack

from pliant.api.access import RunningClusterAccess
from pliant.api.async_cluster import AsyncTemporaryCluster, get_job, get_jobs, run_on_new_cluster, submit_input
from pliant.api.async_job import AsyncJobHandle
from pliant.api.options import (
    ClusterOptions,
    JobSource,
    RunOptions,
    SelectionOptions,
    SubmitOptions,
    Timeout,
    check_keywords,
    selection_arguments,
    to_timedelta,
    to_workspace,
)
from pliant.api.program_submission import submit_program
from pliant.api.run_job import RunRequest
from pliant.api.sources import LoadedSource, is_program, load_source, require_one_job


async def run(
    source: JobSource,
    *,
    timeout: Timeout = None,
    check: bool = False,
    quiet: bool = False,
    **options: Unpack[RunOptions],
) -> AsyncJobHandle:
    """Run a job on a temporary cluster of this process to its end, and show its logs.

    `source` is a Python program, a YAML file, or an object. The keywords are those of `RunOptions`. The job is
    returned however it ends; with `check`, JobFailed is raised unless it has succeeded.
    """
    request = RunRequest(out=sys.stdout, err=sys.stderr, timeout=to_timedelta(timeout), is_quiet=quiet)
    job = await run_shown(source, options, request)
    if check:
        job.raise_if_failed()
    return job


async def run_shown(source: JobSource, options: RunOptions, request: RunRequest) -> AsyncJobHandle:
    """Run a job on a temporary cluster; show it on the streams of the request."""
    check_keywords("run", options, RunOptions)
    loaded = _with_workspace(require_one_job(load_source(source, options), "run"), options)
    cluster: ClusterOptions = {"nodes": options.get("nodes", 1)}
    return await run_on_new_cluster(loaded, request, cluster)


def _with_workspace(loaded: LoadedSource, options: RunOptions) -> LoadedSource:
    workspace = options.get("workspace")
    return replace(loaded, workspace=to_workspace(workspace)) if workspace else loaded


async def submit(source: JobSource, **options: Unpack[SubmitOptions]) -> AsyncJobHandle:
    """Create a job on a running cluster, which is selected as `pliant submit` does; return at once.

    A Python program is sent to the cluster with the local modules that it imports; it needs an `image`,
    except on a local cluster that `cluster` names.
    """
    check_keywords("submit", options, SubmitOptions)
    if is_program(source):
        return await submit_program(_running_cluster(options), source, options)
    loaded = require_one_job(load_source(source, options), "submit")
    access = _running_cluster(options)
    [job] = await submit_input(access, loaded, replace=options.get("replace", False))
    return job


async def submit_all(source: JobSource, **options: Unpack[SubmitOptions]) -> list[AsyncJobHandle]:
    """Create all jobs of a source on a running cluster; return at once."""
    check_keywords("submit_all", options, SubmitOptions)
    loaded = load_source(source, options)
    return await submit_input(_running_cluster(options), loaded, replace=options.get("replace", False))


async def get(name: str, **selection: Unpack[SelectionOptions]) -> AsyncJobHandle:
    """Return the job with the name NAME or KIND/NAME on a running cluster."""
    check_keywords("get", selection, SelectionOptions)
    return await get_job(_running_cluster(selection), name)


async def list_jobs(**selection: Unpack[SelectionOptions]) -> list[AsyncJobHandle]:
    """Return all jobs of a namespace on a running cluster."""
    check_keywords("list_jobs", selection, SelectionOptions)
    return await get_jobs(_running_cluster(selection))


def cluster(**options: Unpack[ClusterOptions]) -> AsyncTemporaryCluster:
    """Return a temporary cluster of this process: `async with aio.cluster(nodes=2) as cluster:`."""
    return AsyncTemporaryCluster.with_options(options)


def _running_cluster(options: SelectionOptions) -> RunningClusterAccess:
    return RunningClusterAccess(selection_arguments(options))
