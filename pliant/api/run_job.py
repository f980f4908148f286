"""Runs a job on a temporary cluster to its end, shows what `pliant run` shows, and records it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TextIO

from pliant.api.access import api_errors
from pliant.api.async_job import AsyncJobHandle
from pliant.api.explanation import to_explanation
from pliant.api.run_record import RunRecord
from pliant.api.sources import LoadedSource
from pliant.api.status import JobProgress, to_job_progress
from pliant.api.temporary_cluster import TemporaryClusterAccess
from pliant.cli.cluster.apply import LocalObjectCreator, kind_registry_for_manifests
from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.cluster.submission import ManifestSubmitter, ReplacePolicy
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.explain.job_evidence import read_explanation
from pliant.cli.input.manifests import Manifest
from pliant.cli.local.run_result import EXIT_TIMEOUT
from pliant.cli.local.run_session import RunPlan, RunSession
from pliant.cli.output.log_lines import sanitize_line
from pliant.cli.output.run_view import PlainRunView, RunOutputOptions
from pliant.cli.output.style import TerminalStyle
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.errors import NotFound, UserError
from pliant.model.job import Job
from pliant.runtime.log_setup import ErrorNotifier

MAX_RECORDED_LINES = 10_000
"""Lines kept of each container, in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """How to run a job, and where to show it."""

    out: TextIO
    err: TextIO
    timeout: timedelta | None = None
    is_quiet: bool = False
    replaces_active: bool = False


class RecordingRunView(PlainRunView):
    """Shows a run as plain lines, and records the last lines of each container."""

    def __init__(self, request: RunRequest, hang_up: Callable[[], None]) -> None:
        options = RunOutputOptions(show_logs=not request.is_quiet, show_notes=not request.is_quiet)
        super().__init__(request.out, request.err, options, hang_up)
        self.lines: dict[str, deque[str]] = {}

    def show_log_line(self, prefix: str, line: str) -> None:
        self.lines.setdefault(prefix, deque(maxlen=MAX_RECORDED_LINES)).append(line)
        super().show_log_line(prefix, line)


class JobRun:
    """One run of one job."""

    def __init__(self, access: TemporaryClusterAccess, loaded: LoadedSource, request: RunRequest) -> None:
        self._access = access
        self._source = loaded
        self._request = request
        self._created: list[JobObject] = []

    async def run(self, started_at: float) -> AsyncJobHandle:
        """Run the job to its end; delete it if the run is cancelled, or raise TimeoutError after its timeout."""
        task, has_hung_up = asyncio.current_task(), False
        assert task is not None

        def hang_up() -> None:
            nonlocal has_hung_up
            has_hung_up = True
            task.cancel()

        view = RecordingRunView(self._request, hang_up)
        try:
            with api_errors():
                async with self._access.connect() as target:
                    return await self._run_session(target, view, started_at)
        except asyncio.CancelledError:
            if has_hung_up and not task.uncancel():
                raise BrokenPipeError("the reader of the output is gone") from None
            raise
        finally:
            view.close()

    async def _run_session(self, target: ClusterTarget, view: RecordingRunView, started_at: float) -> AsyncJobHandle:
        registry = kind_registry_for_manifests(self._source.manifests)
        plan = RunPlan(
            manifests=self._source.manifests,
            kind_registry=registry,
            namespace=self._access.namespace,
            timeout=self._request.timeout,
            style=TerminalStyle.for_stream(self._request.err),
            timeout_option="timeout",
            create_jobs=lambda manifests: self._create_jobs(target, registry, manifests),
        )
        cluster = self._access.runner.cluster
        for note in filter(None, (cluster.mode.fallback_notice, self._source.note)):
            view.show_note(note)
        try:
            with _log_errors_to(view):
                async with asyncio.TaskGroup() as tasks:
                    session = RunSession(target.client, None, plan, view, tasks)
                    result = await session.run_jobs(started_at, data_dir=cluster.kubeconfig.parent)
        except BaseException:
            await self._delete_jobs(target)
            raise
        if result.exit_code == EXIT_TIMEOUT:
            await self._delete_jobs(target)
            raise TimeoutError(_without_colours(result.text))
        if not self._request.is_quiet:
            view.show_note(result.text)
        return await self._finish(target, session, view, result.text)

    async def _create_jobs(
        self, target: ClusterTarget, registry: KindRegistry, manifests: list[Manifest]
    ) -> list[dict[str, Any]]:
        await LocalObjectCreator(target.client, registry, self._access.namespace).create_prerequisites(manifests)
        policy = ReplacePolicy(replaces_finished=True, replaces_active=self._request.replaces_active)
        self._created = await ManifestSubmitter(target, policy).submit(manifests)
        return [dict(created.raw) for created in self._created]

    async def _delete_jobs(self, target: ClusterTarget) -> None:
        for created in self._created:
            key = created.key
            with suppress(Exception):  # the error of the run counts
                await target.client.delete(created.resource, key.namespace, key.name, uid=created.uid)

    async def _finish(
        self, target: ClusterTarget, session: RunSession, view: RecordingRunView, summary: str
    ) -> AsyncJobHandle:
        [created], [job] = self._created, session.run_state.jobs
        try:
            raw = await target.client.get(created.resource, created.key.namespace, created.key.name)
            job_object = parse_job_object(created.frontend, raw)
        except NotFound:  # deleted by its TTL, or by a user
            job_object = replace(created, job=job, state=session.run_state.state_of(job))
        if session.run_state.was_deleted(job):
            raise UserError(f"{created.key.name} was deleted before it finished")
        record = RunRecord(
            explanation=to_explanation(await read_explanation(target.client, job_object)),
            lines={name: tuple(lines) for name, lines in view.lines.items()},
            progress=_printed_progress(session, job),
            summary=_without_colours(summary),
        )
        return AsyncJobHandle(self._access, job_object, record)


def _without_colours(text: str) -> str:
    return "\n".join(map(sanitize_line, text.splitlines()))


def _printed_progress(session: RunSession, job: Job) -> JobProgress | None:
    for group in job.groups:
        if (progress := session.run_state.progress_from_logs(job, group)) is not None:
            return to_job_progress(progress)
    return None


@contextmanager
def _log_errors_to(view: PlainRunView) -> Iterator[None]:
    """Show internal errors of the cluster as notes."""
    handler, logger = ErrorNotifier(view.show_note), logging.getLogger("pliant")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
