"""A temporary cluster in the event loop of the caller. `pliant.api.cluster` is its synchronous form."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from pliant.api.access import ClusterAccess, api_errors
from pliant.api.async_job import AsyncJobHandle
from pliant.api.options import (
    ClusterOptions,
    JobOptions,
    JobSource,
    Timeout,
    check_keywords,
    parse_cluster_options,
    to_timedelta,
    to_workspace,
)
from pliant.api.run_job import JobRun, RunRequest
from pliant.api.sources import LoadedSource, load_source, require_one_job
from pliant.api.temporary_cluster import TemporaryClusterAccess, TemporaryClusterRunner, stop_ignoring_errors
from pliant.cli.cluster.apply import LocalObjectCreator, frontends_in, kind_registry_for_manifests
from pliant.cli.cluster.job_lookup import find_job, list_jobs
from pliant.cli.cluster.submission import ManifestSubmitter, ReplacePolicy
from pliant.cli.input.local_cluster_options import current_dir
from pliant.cli.input.manifest_checks import check_jobs_and_plans, check_runnable_locally
from pliant.errors import UserError
from pliant.kube.resources import NAMESPACES

DEFAULT_NAMESPACE = "default"


class AsyncTemporaryCluster:
    """An embedded Kubernetes cluster in this process, with Pliant's operator, until its context exits.

    All its pods end with the context, or with this process.
    """

    def __init__(self, runner: TemporaryClusterRunner, namespace: str = DEFAULT_NAMESPACE) -> None:
        self._runner = runner
        self._access = TemporaryClusterAccess(runner, namespace)

    @classmethod
    def with_options(cls, options: ClusterOptions) -> Self:
        workspace = to_workspace(options.get("workspace") or current_dir())
        return cls(TemporaryClusterRunner(parse_cluster_options(options), workspace))

    def __repr__(self) -> str:
        return f"<Cluster {self.url}>" if self._runner.is_open else "<Cluster: not running>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.stop()
        else:
            await stop_ignoring_errors(self._runner)

    async def start(self) -> None:
        """Start the cluster; a context manager does it by itself."""
        await self._runner.start()

    async def stop(self) -> None:
        """Stop the cluster and all its pods; a context manager does it by itself."""
        await self._runner.stop()

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self._runner.cluster.url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for kubectl and other clients; it is deleted with the cluster."""
        return self._runner.cluster.kubeconfig

    @property
    def namespace(self) -> str:
        """The namespace of jobs that do not name one."""
        return self._access.namespace

    async def create_namespace(self, name: str) -> AsyncTemporaryCluster:
        """Create a namespace; return this cluster with it as the namespace of jobs."""
        async with self._access.connect() as target:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await target.client.create(NAMESPACES, None, body)
        return AsyncTemporaryCluster(self._runner, name)

    async def run(
        self,
        source: JobSource,
        *,
        timeout: Timeout = None,
        check: bool = False,
        quiet: bool = False,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle:
        """Run a job to its end and show its logs; a finished job of the same name is replaced.

        The job is deleted if the call is cancelled or runs into the timeout.
        """
        request = RunRequest(out=sys.stdout, err=sys.stderr, timeout=to_timedelta(timeout), is_quiet=quiet)
        job = await self.run_shown(source, options, request)
        if check:
            job.raise_if_failed()
        return job

    async def run_shown(self, source: JobSource, options: JobOptions, request: RunRequest) -> AsyncJobHandle:
        """Run a job to its end; show it on the streams of the request."""
        check_keywords("run", options, JobOptions)
        loaded = require_one_job(load_source(source, options), "run")
        check_jobs_and_plans(loaded.manifests, kind_registry_for_manifests(loaded.manifests), self.namespace)
        request = replace(request, replaces_active=options.get("replace", False))
        return await JobRun(self._access, loaded, request).run(asyncio.get_running_loop().time())

    async def submit(self, source: JobSource, **options: Unpack[JobOptions]) -> AsyncJobHandle:
        """Create a job, and create or update the objects it needs; return at once."""
        check_keywords("submit", options, JobOptions)
        loaded = require_one_job(load_source(source, options), "submit")
        [job] = await submit_input(self._access, loaded, replace=options.get("replace", False))
        return job

    async def submit_all(self, source: JobSource, **options: Unpack[JobOptions]) -> list[AsyncJobHandle]:
        """Create all jobs of a source, and create or update the objects they need; return at once."""
        check_keywords("submit_all", options, JobOptions)
        return await submit_input(self._access, load_source(source, options), replace=options.get("replace", False))

    async def get(self, name: str) -> AsyncJobHandle:
        """Return the job with the name NAME or KIND/NAME."""
        return await get_job(self._access, name)

    async def list_jobs(self) -> list[AsyncJobHandle]:
        """Return all jobs of the namespace."""
        return await get_jobs(self._access)


async def submit_input(access: ClusterAccess, loaded: LoadedSource, *, replace: bool) -> list[AsyncJobHandle]:
    """Create the objects of an input on any cluster; return its jobs."""
    if not loaded.job_names:
        raise UserError("the source contains no job")
    manifests = loaded.manifests
    registry = kind_registry_for_manifests(manifests)
    with api_errors():
        async with access.connect() as target:
            check_jobs_and_plans(manifests, registry, target.default_namespace)
            if isinstance(access, TemporaryClusterAccess):
                await LocalObjectCreator(target.client, registry, access.namespace).create_prerequisites(manifests)
            jobs = await ManifestSubmitter(target, ReplacePolicy(replaces_active=replace)).submit(manifests)
    return [AsyncJobHandle(access, job) for job in jobs]


async def get_job(access: ClusterAccess, name: str) -> AsyncJobHandle:
    with api_errors():
        async with access.connect() as target:
            return AsyncJobHandle(access, await find_job(target, name))


async def get_jobs(access: ClusterAccess) -> list[AsyncJobHandle]:
    with api_errors():
        async with access.connect() as target:
            return [AsyncJobHandle(access, job) for job in await list_jobs(target)]


async def run_on_new_cluster(loaded: LoadedSource, request: RunRequest, options: ClusterOptions) -> AsyncJobHandle:
    """Start a cluster for one job, run it to its end, and stop the cluster."""
    manifests = loaded.manifests
    check_runnable_locally(manifests, kind_registry_for_manifests(manifests), DEFAULT_NAMESPACE)
    started_at = asyncio.get_running_loop().time()
    arguments = parse_cluster_options(options)
    runner = TemporaryClusterRunner(arguments, loaded.workspace, frontends_in(manifests))
    await runner.start()
    try:
        job = await JobRun(TemporaryClusterAccess(runner, DEFAULT_NAMESPACE), loaded, request).run(started_at)
    except BaseException:
        await stop_ignoring_errors(runner)
        raise
    await runner.stop()
    return job
