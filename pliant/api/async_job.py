"""A job on a cluster: the implementation of the Python API. `pliant.api.job` is its synchronous form."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from io import StringIO
from typing import Any, TextIO, cast

from pliant.api.access import ClusterAccess, api_errors
from pliant.api.explanation import Explanation, to_explanation
from pliant.api.options import Timeout, to_timedelta
from pliant.api.run_record import LogSelection, RunRecord
from pliant.api.status import JobProgress, JobState, RootCause, read_state
from pliant.api.streams import Emit, LineWriter, iterate_task
from pliant.api.updates import JobUpdate, UpdateTracker
from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.cluster.scaling import resize_group, wait_resized
from pliant.cli.cluster.suspension import check_suspendable, set_suspended, wait_resumed, wait_suspended
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import UNLIMITED_WAIT_TIMEOUT, wait_deleted, wait_for_job
from pliant.cli.commands.jobs import logs as logs_command
from pliant.cli.explain.job_evidence import read_explanation
from pliant.cli.output.log_reader import JobLogPrinter
from pliant.errors import JobFailed, NotFound, UserError


class AsyncJobHandle:
    """A job on a cluster. It holds the state that was read last, and connects for each operation."""

    def __init__(self, access: ClusterAccess, job_object: JobObject, record: RunRecord | None = None) -> None:
        self._access = access
        self._job_object = job_object
        self._record = record

    def __repr__(self) -> str:
        location = f"namespace {self.namespace}, {self._access.description}"
        return f"<Job {self.name}: {self.state.phase}, {self.kind}, {location}>"

    @property
    def name(self) -> str:
        return self._job_object.key.name

    @property
    def namespace(self) -> str:
        return self._job_object.key.namespace

    @property
    def kind(self) -> str:
        return self._job_object.frontend.kind

    @property
    def state(self) -> JobState:
        """The state that was read last; `refresh` reads it again."""
        return read_state(self._job_object)

    @property
    def phase(self) -> str:
        return self.state.phase

    @property
    def succeeded(self) -> bool:
        return self.state.succeeded

    @property
    def progress(self) -> JobProgress | None:
        """The progress that the program reported or, after `run`, printed; None if there is none."""
        return self.state.progress or (self._record.progress if self._record else None)

    @property
    def root_cause(self) -> RootCause | None:
        """The failure that ended the job, or that led to the latest restart."""
        return self.state.root_cause

    @property
    def summary(self) -> str:
        """After `run`: the result as `pliant run` prints it; else the phase and the message."""
        state = self.state
        return self._record.summary if self._record else f"{self.name} {state.phase}: {state.message}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The object as the API server returned it last."""
        return dict(self._job_object.raw)

    async def refresh(self) -> JobState:
        """Read the state of the job; a job that has finished is not read again."""
        if not self.state.is_finished and self._access.is_open:
            async with self._connect() as target:
                self._job_object = await self._read(target)
        return self.state

    async def wait(self, timeout: Timeout = None, *, check: bool = False) -> JobState:
        """Wait until the job has finished; raise TimeoutError after the timeout, JobFailed if `check` is set."""
        if not self.state.is_finished:
            async with self._connect() as target:
                latest = await wait_for_job(target, self._job_object, _has_finished, _limit(timeout), "finished")
            self._job_object = self._require_existing(latest)
        if check:
            self.raise_if_failed()
        return self.state

    def raise_if_failed(self) -> None:
        """Raise JobFailed with the root cause unless the job has succeeded."""
        state, cause = self.state, self.state.root_cause
        if state.succeeded:
            return
        text = self._record.summary if self._record else _failure_text(self.name, state)
        raise JobFailed(
            text,
            phase=state.phase,
            replica=cause.replica if cause else "",
            exit_code=cause.exit_code if cause else None,
            last_lines=cause.last_lines if cause else (),
        )

    async def follow(self) -> AsyncGenerator[JobUpdate, None]:
        """Yield what happens to the job until it has finished or is deleted; at first, what has happened so far."""
        tracker = UpdateTracker()
        if self.state.is_finished:
            for update in tracker.new_updates(self._job_object):
                yield update
            return

        async def produce(emit: Emit[JobUpdate]) -> None:
            def is_done(latest: JobObject | None) -> bool:
                if latest is not None:
                    self._job_object = latest
                    for update in tracker.new_updates(latest):
                        emit(update)
                return _has_finished(latest)

            async with self._connect() as target:
                await wait_for_job(target, self._job_object, is_done, UNLIMITED_WAIT_TIMEOUT, "finished")

        async for update in iterate_task(produce):
            yield update

    async def logs(
        self,
        rank: int | None = None,
        *,
        group: str | None = None,
        container: str | None = None,
        tail: int | None = None,
    ) -> str:
        """Return the logs of all replicas, or of a rank; without a rank, lines begin with the name of the replica."""
        selection = LogSelection(rank=rank, group=group, container=container, tail=tail)
        if self._record is not None:
            return self._record.format_logs(selection)
        out = StringIO()
        async with self._connect() as target:
            job_object = await self._read(target)
            arguments = _log_arguments(job_object, selection, follow=False)
            await JobLogPrinter(target.client, job_object, arguments, out).print_existing()
        return out.getvalue()

    async def follow_logs(
        self,
        rank: int | None = None,
        *,
        group: str | None = None,
        container: str | None = None,
        tail: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """Yield the lines of the logs until the job has finished."""
        selection = LogSelection(rank=rank, group=group, container=container, tail=tail)
        if self._record is not None:
            for line in self._record.format_logs(selection).splitlines():
                yield line
            return

        async def produce(emit: Emit[str]) -> None:
            async with self._connect() as target:
                job_object = await self._read(target)
                arguments = _log_arguments(job_object, selection, follow=True)
                printer = JobLogPrinter(target.client, job_object, arguments, cast("TextIO", LineWriter(emit)))
                async with asyncio.TaskGroup() as tasks:
                    await printer.follow(tasks)

        async for line in iterate_task(produce):
            yield line

    async def scale(self, size: int, *, group: str | None = None, wait: bool = False, timeout: Timeout = None) -> int:
        """Request a size of a group, by default of the elastic or only group; return the size that applies."""
        async with self._connect() as target:
            job_object = await self._read(target)
            change = await resize_group(target, job_object, group, size)
            if wait:
                self._job_object = self._require_existing(
                    await wait_resized(target, job_object, change, _limit(timeout))
                )
        return change.size

    async def suspend(self, *, wait: bool = False, timeout: Timeout = None) -> None:
        """Suspend the job: delete its pods, keep its state. With `wait`, return when its pods are deleted."""
        await self._set_suspended(True, _limit(timeout) if wait else None)

    async def resume(self, *, wait: bool = False, timeout: Timeout = None) -> None:
        """Resume the suspended job. With `wait`, return when it runs."""
        await self._set_suspended(False, _limit(timeout) if wait else None)

    async def delete(self, *, wait: bool = False, timeout: Timeout = None) -> None:
        """Delete the job and everything it owns. With `wait`, return when its pods are deleted."""
        async with self._connect() as target:
            key = self._job_object.key
            with suppress(NotFound):
                await target.client.delete(self._job_object.resource, key.namespace, key.name, uid=self._job_object.uid)
            if wait:
                await wait_deleted(target, self._job_object, _limit(timeout))

    async def why(self) -> Explanation:
        """Explain what happened to the job and why, as `pliant why` does."""
        if self._record is not None:
            return self._record.explanation
        async with self._connect() as target:
            self._job_object = await self._read(target)
            return to_explanation(await read_explanation(target.client, self._job_object))

    async def _set_suspended(self, is_suspended: bool, wait_limit: timedelta | None) -> None:
        async with self._connect() as target:
            job_object = await self._read(target)
            check_suspendable(job_object, is_suspended=is_suspended)
            await set_suspended(target, job_object, is_suspended=is_suspended)
            if wait_limit is not None:
                wait_for_state = wait_suspended if is_suspended else wait_resumed
                self._job_object = await wait_for_state(target, job_object, wait_limit)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[ClusterTarget]:
        with api_errors():
            async with self._access.connect() as target:
                yield target

    async def _read(self, target: ClusterTarget) -> JobObject:
        """Read this job, not another one of the same name."""
        frontend, key = self._job_object.frontend, self._job_object.key
        try:
            raw = await target.client.get(self._job_object.resource, key.namespace, key.name)
        except NotFound:
            raw = {}
        latest = parse_job_object(frontend, raw) if raw else None
        return self._require_existing(latest if latest and latest.uid == self._job_object.uid else None)

    def _require_existing(self, latest: JobObject | None) -> JobObject:
        if latest is None:
            raise UserError(f"{self.name} was deleted")
        return latest


def _has_finished(job_object: JobObject | None) -> bool:
    return job_object is None or (job_object.state is not None and job_object.state.phase.is_final)


def _limit(timeout: Timeout) -> timedelta:
    return to_timedelta(timeout) or UNLIMITED_WAIT_TIMEOUT


def _log_arguments(job_object: JobObject, selection: LogSelection, *, follow: bool) -> Namespace:
    """Return the arguments of `pliant logs` for a selection."""
    parser = ArgumentParser()
    logs_command.configure(parser)
    arguments = parser.parse_args([job_object.key.name])
    arguments.rank, arguments.group, arguments.container = selection.rank, selection.group, selection.container
    arguments.tail, arguments.follow = selection.tail, follow
    logs_command.check_group(arguments, job_object)
    has_one_group = selection.group is not None or (job_object.job is not None and len(job_object.job.groups) == 1)
    arguments.prefix = selection.rank is None or not has_one_group
    return arguments


def _failure_text(name: str, state: JobState) -> str:
    lines = [
        f"{name} {'did not succeed' if state.is_finished else 'has not finished'} ({state.phase}): {state.message}"
    ]
    if cause := state.root_cause:
        lines += [f"root cause: {cause.text}", *(f"  │ {line}" for line in cause.last_lines)]
    return "\n".join(lines)
