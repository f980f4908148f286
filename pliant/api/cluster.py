"""A temporary cluster for scripts, notebooks and tests: each method waits for its result."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self, TextIO, Unpack

from pliant.api.async_cluster import AsyncTemporaryCluster
from pliant.api.async_job import AsyncJobHandle
from pliant.api.background_loop import background
from pliant.api.job import JobHandle
from pliant.api.options import JobOptions, JobSource, Timeout, to_timedelta
from pliant.api.run_job import RunRequest


class TemporaryCluster:
    """An embedded Kubernetes cluster in this process, with Pliant's operator, until its context exits.

    All its pods end with the context, or with this process.
    """

    def __init__(self, cluster: AsyncTemporaryCluster) -> None:
        self._cluster = cluster

    def __repr__(self) -> str:
        return repr(self._cluster)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        background.closers.discard(self._cluster.stop)
        background.run(self._cluster.__aexit__(kind, error, trace))

    def start(self) -> None:
        """Start the cluster; a context manager does it by itself."""
        background.run(self._cluster.start())
        background.closers.add(self._cluster.stop)

    def stop(self) -> None:
        """Stop the cluster and all its pods; a context manager does it by itself."""
        background.closers.discard(self._cluster.stop)
        background.run(self._cluster.stop())

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self._cluster.url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for kubectl and other clients; it is deleted with the cluster."""
        return self._cluster.kubeconfig

    @property
    def namespace(self) -> str:
        """The namespace of jobs that do not name one."""
        return self._cluster.namespace

    def create_namespace(self, name: str) -> TemporaryCluster:
        """Create a namespace; return this cluster with it as the namespace of jobs."""
        return TemporaryCluster(background.run(self._cluster.create_namespace(name)))

    def run(
        self,
        source: JobSource,
        *,
        timeout: Timeout = None,
        check: bool = False,
        quiet: bool = False,
        **options: Unpack[JobOptions],
    ) -> JobHandle:
        """Run a job to its end and show its logs; a finished job of the same name is replaced.

        The job is deleted if the call is interrupted or runs into the timeout.
        """
        limit = to_timedelta(timeout)

        async def start(out: TextIO, err: TextIO) -> AsyncJobHandle:
            request = RunRequest(out=out, err=err, timeout=limit, is_quiet=quiet)
            return await self._cluster.run_shown(source, options, request)

        job = JobHandle(background.run_with_output(start))
        if check:
            job.raise_if_failed()
        return job

    def submit(self, source: JobSource, **options: Unpack[JobOptions]) -> JobHandle:
        """Create a job, and create or update the objects it needs; return at once."""
        return JobHandle(background.run(self._cluster.submit(source, **options)))

    def submit_all(self, source: JobSource, **options: Unpack[JobOptions]) -> list[JobHandle]:
        """Create all jobs of a source, and create or update the objects they need; return at once."""
        return [JobHandle(job) for job in background.run(self._cluster.submit_all(source, **options))]

    def get(self, name: str) -> JobHandle:
        """Return the job with the name NAME or KIND/NAME."""
        return JobHandle(background.run(self._cluster.get(name)))

    def list_jobs(self) -> list[JobHandle]:
        """Return all jobs of the namespace."""
        return [JobHandle(job) for job in background.run(self._cluster.list_jobs())]
