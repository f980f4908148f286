"""A job on a cluster, for scripts and notebooks: each method waits for its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.api.async_job import AsyncJobHandle
from pliant.api.background_loop import background
from pliant.api.explanation import Explanation
from pliant.api.options import Timeout
from pliant.api.status import JobProgress, JobState, RootCause
from pliant.api.updates import JobUpdate


class JobHandle:
    """A job on a cluster. Its properties read the state of a job that has not finished from the cluster."""

    def __init__(self, job: AsyncJobHandle) -> None:
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def name(self) -> str:
        return self._job.name

    @property
    def namespace(self) -> str:
        return self._job.namespace

    @property
    def kind(self) -> str:
        return self._job.kind

    @property
    def state(self) -> JobState:
        return background.run(self._job.refresh())

    @property
    def phase(self) -> str:
        return self.state.phase

    @property
    def succeeded(self) -> bool:
        return self.state.succeeded

    @property
    def progress(self) -> JobProgress | None:
        """The progress that the program reported or, after `run`, printed; None if there is none."""
        background.run(self._job.refresh())
        return self._job.progress

    @property
    def root_cause(self) -> RootCause | None:
        """The failure that ended the job, or that led to the latest restart."""
        return self.state.root_cause

    @property
    def summary(self) -> str:
        """After `run`: the result as `pliant run` prints it; else the phase and the message."""
        background.run(self._job.refresh())
        return self._job.summary

    @property
    def manifest(self) -> dict[str, Any]:
        """The object as the API server returned it last."""
        return self._job.manifest

    def wait(self, timeout: Timeout = None, *, check: bool = False) -> JobState:
        """Wait until the job has finished; raise TimeoutError after the timeout, JobFailed if `check` is set."""
        return background.run(self._job.wait(timeout, check=check))

    def raise_if_failed(self) -> None:
        """Raise JobFailed with the root cause unless the job has succeeded."""
        self._job.raise_if_failed()

    def follow(self) -> Iterator[JobUpdate]:
        """Yield what happens to the job until it has finished or is deleted; at first, what has happened so far."""
        return background.iterate(self._job.follow())

    def logs(
        self,
        rank: int | None = None,
        *,
        group: str | None = None,
        container: str | None = None,
        tail: int | None = None,
    ) -> str:
        """Return the logs of all replicas, or of a rank; without a rank, lines begin with the name of the replica."""
        return background.run(self._job.logs(rank, group=group, container=container, tail=tail))

    def follow_logs(
        self,
        rank: int | None = None,
        *,
        group: str | None = None,
        container: str | None = None,
        tail: int | None = None,
    ) -> Iterator[str]:
        """Yield the lines of the logs until the job has finished."""
        return background.iterate(self._job.follow_logs(rank, group=group, container=container, tail=tail))

    def scale(self, size: int, *, group: str | None = None, wait: bool = False, timeout: Timeout = None) -> int:
        """Request a size of a group, by default of the elastic or only group; return the size that applies."""
        return background.run(self._job.scale(size, group=group, wait=wait, timeout=timeout))

    def suspend(self, *, wait: bool = False, timeout: Timeout = None) -> None:
        """Suspend the job: delete its pods, keep its state. With `wait`, return when its pods are deleted."""
        background.run(self._job.suspend(wait=wait, timeout=timeout))

    def resume(self, *, wait: bool = False, timeout: Timeout = None) -> None:
        """Resume the suspended job. With `wait`, return when it runs."""
        background.run(self._job.resume(wait=wait, timeout=timeout))

    def delete(self, *, wait: bool = False, timeout: Timeout = None) -> None:
        """Delete the job and everything it owns. With `wait`, return when its pods are deleted."""
        background.run(self._job.delete(wait=wait, timeout=timeout))

    def why(self) -> Explanation:
        """Explain what happened to the job and why, as `pliant why` does."""
        return background.run(self._job.why())
